"""Calls with one answer: a message is read as the route reads its JSON, and answered as it does."""

from typing import Any, Final

from google.protobuf.message import Message

from mainspring.api.converting import converted
from mainspring.api.http import Call, Response
from mainspring.api.limits import BODY_BYTES_MAX
from mainspring.api.performing import Performer
from mainspring.api.routes import Recording
from mainspring.api.rpc.gate import Context, Gate
from mainspring.api.rpc.messages import message_of, values_of
from mainspring.api.rpc.methods import Method, kind_of, parts_of
from mainspring.api.rpc.reading import first_message
from mainspring.api.rpc.sending import Sender
from mainspring.domain.errors import MainspringError, PayloadTooLarge
from mainspring.domain.values import BATCH_MAX

_WAIT: Final = "wait_seconds"
_SPARE_SECONDS: Final = 0.5
"""How long before its deadline a call has its answer, so that the answer arrives."""


class UnaryCalls:
    """Answers the calls of methods that have a route with a body that fits in one message."""

    def __init__(self, gate: Gate, performer: Performer) -> None:
        self._gate = gate
        self._performer = performer

    async def call(self, method: Method, context: Context) -> None:
        """Answer one call."""

        async def work(request_id: str) -> None:
            response = await self._done(method, context, request_id)
            await Sender(context).send(message_of(method.answer, response.value))

        await self._gate.answer(context, method.path, work)

    async def _done(self, method: Method, context: Context, request_id: str) -> Response:
        route = method.route
        caller = await self._gate.admit(context, route, request_id)
        message = await first_message(context, method.request, route.body_bytes_max)
        call = Call(
            who=caller.who,
            **_read(method, message, context.time_remaining()),
            content_type="",
            headers={},
            request_id=request_id,
            address=caller.address,
            action=route.action,
            spent_seconds=caller.spent_seconds,
        )
        doing = self._performer.perform(route, call)
        is_write = route.action and route.recording is not Recording.SUMMED
        return await (self._gate.finish(doing) if is_write else doing)


def _read(method: Method, message: Message, remaining: float | None) -> dict[str, Any]:
    """Return what the route takes from its path, its query, its body and its headers."""
    route = method.route
    if route.raw_body and method.request.DESCRIPTOR.fields[0].is_repeated:
        return {"path": {}, "query": None, "body": _items(message)}
    path, rest = parts_of(route, values_of(message))
    if route.raw_body:
        return {"path": path, "query": None, "body": rest}
    if remaining is not None and _WAIT in rest:
        # Nobody is there any more for what would be claimed after the deadline.
        rest[_WAIT] = max(0, min(rest[_WAIT], remaining - _SPARE_SECONDS))
    kind = kind_of(route)
    if kind is None:
        return {"path": path, "query": None, "body": None, "fields": rest}
    read = converted(rest, kind)
    return {
        "path": path,
        "query": read if route.query else None,
        "body": None if route.query else read,
    }


def _items(message: Any) -> list[Any]:
    """Return the tasks of a batch, each as what was given or as its error."""
    if len(message.tasks) > BATCH_MAX:
        text = f"tasks has {len(message.tasks):,} entries; send at most {BATCH_MAX:,} at once"
        raise PayloadTooLarge(text, field="tasks")
    return [_item(task, place) for place, task in enumerate(message.tasks)]


def _item(task: Message, place: int) -> Any:
    where = f"tasks[{place}]"
    try:
        if task.ByteSize() > BODY_BYTES_MAX:
            text = f"{where} has more than {BODY_BYTES_MAX:,} bytes; send less"
            raise PayloadTooLarge(text, field=where)
        return values_of(task, f"{where}.")
    except MainspringError as error:
        return error
