"""The messages and stubs of gRPC's `mainspring.v1`, for clients in Python.

``from mainspring.api import v1`` and then ``v1.TaskServiceStub(channel)``. What they mean is in the
protos and in the guide to gRPC.
"""

from mainspring.api._generated.dead_letters_pb2 import *  # noqa: F403 - all of it is meant
from mainspring.api._generated.dead_letters_pb2_grpc import DeadLetterServiceStub
from mainspring.api._generated.queues_pb2 import *  # noqa: F403
from mainspring.api._generated.queues_pb2_grpc import QueueServiceStub
from mainspring.api._generated.schedules_pb2 import *  # noqa: F403
from mainspring.api._generated.schedules_pb2_grpc import ScheduleServiceStub
from mainspring.api._generated.tasks_pb2 import *  # noqa: F403
from mainspring.api._generated.tasks_pb2_grpc import TaskServiceStub
from mainspring.api._generated.workers_pb2 import *  # noqa: F403
from mainspring.api._generated.workers_pb2_grpc import WorkerServiceStub

__all__ = [
    "DeadLetterServiceStub",
    "QueueServiceStub",
    "ScheduleServiceStub",
    "TaskServiceStub",
    "WorkerServiceStub",
]
