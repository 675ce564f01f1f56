"""Streams of the events of a task."""

from contextlib import aclosing

from mainspring.api._generated import tasks_pb2
from mainspring.api.doorkeeper import Doorkeeper
from mainspring.api.limits import BODY_BYTES_MAX
from mainspring.api.performing import in_time
from mainspring.api.routes import PATIENCE_SECONDS
from mainspring.api.rpc.gate import Caller, Context, Gate
from mainspring.api.rpc.messages import message_of, values_of
from mainspring.api.rpc.methods import Method
from mainspring.api.rpc.reading import first_message
from mainspring.api.rpc.sending import Sender
from mainspring.core.following import follow
from mainspring.core.gateway import Gateway
from mainspring.core.lifecycle import task_id_of
from mainspring.core.task_events import EventId, TaskEvent, parse_event_id
from mainspring.domain.task import Task


class Watching:
    """Tells callers what happens to their tasks."""

    def __init__(self, gate: Gate, gateway: Gateway, doorkeeper: Doorkeeper) -> None:
        self._gate = gate
        self._gateway = gateway
        self._doorkeeper = doorkeeper

    async def call(self, method: Method, context: Context) -> None:
        """Serve one stream until the task ends, or the caller may not listen any more."""

        async def work(request_id: str) -> None:
            caller = await self._gate.admit(context, method.route, request_id)
            given = values_of(await first_message(context, method.request, BODY_BYTES_MAX))
            task_id = task_id_of(given.get("task_id"))
            # Looked at before the stream begins, so that a missing task is a plain NOT_FOUND.
            task = await in_time(self._gateway.task(caller.who, task_id), PATIENCE_SECONDS)
            await self._tell(caller, context, task, parse_event_id(given.get("after")))

        await self._gate.answer(context, method.path, work)

    async def _tell(self, caller: Caller, context: Context, task: Task, last: EventId) -> None:
        sender = Sender(context)
        with self._doorkeeper.stream(caller.who) as stay:
            events = follow(self._gateway, caller.who, task, stay, last)
            async with aclosing(events):
                async for event in events:
                    if event is not None:
                        await sender.send(_message(event))
            if stay.is_over:
                raise self._gate.reason_to_end()


def _message(event: TaskEvent) -> tasks_pb2.TaskEvent:
    data = event.data
    told = {
        "id": str(event.id),
        "name": event.name,
        "task_id": data["task_id"],
        "at": data["at"],
        "data": data,
    }
    return message_of(tasks_pb2.TaskEvent, told)
