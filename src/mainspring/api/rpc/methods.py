"""The table of methods: each is a route of the REST API, and has its scope and its record from it.

A method that is in the protos and not in this table is not served.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from mainspring.api._generated import (
    dead_letters_pb2,
    queues_pb2,
    schedules_pb2,
    tasks_pb2,
    workers_pb2,
)
from mainspring.api.routes import Route

FILES: Final[tuple[FileDescriptor, ...]] = (
    tasks_pb2.DESCRIPTOR,
    schedules_pb2.DESCRIPTOR,
    dead_letters_pb2.DESCRIPTOR,
    queues_pb2.DESCRIPTOR,
    workers_pb2.DESCRIPTOR,
)

TABLE: Final[Mapping[str, str]] = {
    "TaskService.Submit": "POST /v1/tasks",
    "TaskService.SubmitBatch": "POST /v1/tasks/batch",
    "TaskService.Get": "GET /v1/tasks/{task_id}",
    "TaskService.List": "GET /v1/tasks",
    "TaskService.Cancel": "POST /v1/tasks/{task_id}/cancel",
    "TaskService.Reschedule": "POST /v1/tasks/{task_id}/reschedule",
    "TaskService.RunNow": "POST /v1/tasks/{task_id}/run-now",
    "TaskService.Watch": "GET /v1/tasks/{task_id}/events",
    "ScheduleService.Create": "POST /v1/schedules",
    "ScheduleService.Get": "GET /v1/schedules/{name}",
    "ScheduleService.List": "GET /v1/schedules",
    "ScheduleService.Update": "PATCH /v1/schedules/{name}",
    "ScheduleService.Pause": "POST /v1/schedules/{name}/pause",
    "ScheduleService.Resume": "POST /v1/schedules/{name}/resume",
    "ScheduleService.Trigger": "POST /v1/schedules/{name}/trigger",
    "ScheduleService.Backfill": "POST /v1/schedules/{name}/backfill",
    "ScheduleService.Delete": "DELETE /v1/schedules/{name}",
    "ScheduleService.Preview": "POST /v1/schedules/preview",
    "DeadLetterService.List": "GET /v1/dead-letters",
    "DeadLetterService.Get": "GET /v1/dead-letters/{task_id}",
    "DeadLetterService.Replay": "POST /v1/dead-letters/replay",
    "DeadLetterService.Discard": "POST /v1/dead-letters/discard",
    "QueueService.List": "GET /v1/queues",
    "QueueService.Pause": "POST /v1/queues/{name}/pause",
    "QueueService.Resume": "POST /v1/queues/{name}/resume",
    "QueueService.GetLimits": "GET /v1/queues/{name}/limits",
    "QueueService.SetLimits": "PUT /v1/queues/{name}/limits",
    "QueueService.SetGroupLimit": "PUT /v1/queues/{name}/limits/groups/{group_key}",
    "QueueService.DropGroupLimit": "DELETE /v1/queues/{name}/limits/groups/{group_key}",
    "WorkerService.Work": "POST /v1/leases",
    "WorkerService.Claim": "POST /v1/leases",
    "WorkerService.Heartbeat": "POST /v1/leases/heartbeat",
    "WorkerService.Complete": "POST /v1/leases/complete",
    "WorkerService.Fail": "POST /v1/leases/fail",
}


class Method(NamedTuple):
    """One method that is served."""

    name: str
    """TaskService.Submit"""

    descriptor: MethodDescriptor
    route: Route
    request: type[Message]
    answer: type[Message]

    @property
    def path(self) -> str:
        """The name on the wire: /mainspring.v1.TaskService/Submit."""
        service = self.descriptor.containing_service.full_name
        return f"/{service}/{self.descriptor.name}"


def methods_of(routes: Iterable[Route]) -> list[Method]:
    """Return every method of the protos that the table has a route for."""
    by_name = {f"{route.method} {route.path}": route for route in routes}
    return [
        Method(
            name,
            descriptor,
            by_name[TABLE[name]],
            GetMessageClass(descriptor.input_type),
            GetMessageClass(descriptor.output_type),
        )
        for name, descriptor in described()
        if name in TABLE
    ]


def described() -> Iterator[tuple[str, MethodDescriptor]]:
    """Yield every method of the protos with its name."""
    for file in FILES:
        for service in file.services_by_name.values():
            for method in service.methods:
                yield f"{service.name}.{method.name}", method


def parts_of(route: Route, given: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Take what a route has in its path out of what was given; the rest is its query or body."""
    path = {name: given.pop(name, "") for name in route.parameters}
    return path, given


def kind_of(route: Route) -> type[msgspec.Struct] | None:
    """Return what the rest is read as."""
    return route.query or route.body
