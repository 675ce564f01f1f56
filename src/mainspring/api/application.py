"""The ASGI application: every request goes through the same checks in the same order.

Size of the head, host and origin, route, who asks, scope, body, then the handler. Whatever goes
wrong becomes a problem with a stable code; what nobody foresaw is logged and counted.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
import structlog

from mainspring.api.converting import converted
from mainspring.api.doorkeeper import Doorkeeper
from mainspring.api.errors import (
    PROBLEM_TYPE,
    MalformedRequest,
    MethodNotAllowed,
    problem_of,
    retry_after,
)
from mainspring.api.http import CERTIFICATE, Call, Response, Scope, encoded
from mainspring.api.limits import Headers, check_head, check_type, decode_body, read_body
from mainspring.api.performing import Performer, in_time
from mainspring.api.routes import PATIENCE_SECONDS, Route, Router
from mainspring.api.streams import has_left, send_stream
from mainspring.core.auditing import AuditTrail
from mainspring.domain.errors import InvalidValue, MainspringError
from mainspring.ports.clock import Clock, IdSource

_ENCODER: Final = msgspec.json.Encoder()
_PARAMETERS_MAX: Final = 50
_BEGIN_LENGTH: Final = 24
"""Of a request's id: the same for all of a process. A number follows, which costs less to make than
an id of its own."""

_FIXED_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)


class Application:
    """The API as ASGI servers call it."""

    def __init__(
        self,
        routes: Sequence[Route],
        doorkeeper: Doorkeeper,
        trail: AuditTrail,
        ids: IdSource,
        clock: Clock,
    ) -> None:
        self.router = Router(routes)
        self._doorkeeper = doorkeeper
        self._performer = Performer(trail)
        self._begin = ids.task_id().hex[:_BEGIN_LENGTH]
        self._numbers = count()
        self._clock = clock
        self._log = structlog.get_logger("mainspring.api")
        self.answers: dict[tuple[str, int], int] = {}
        """How often each route answered with each status."""

        self.unforeseen = 0
        """Errors that nobody foresaw. Tests hold that there is none."""

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        request_id = f"{self._begin}{next(self._numbers):08x}"
        exchange = _Exchange(scope, receive, send, request_id=request_id)
        try:
            response = await self._answer(exchange)
        except MainspringError as error:
            response = _problem(error, exchange)
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - whoever asks gets an answer, and the log the rest
            self.unforeseen += 1
            self._log.exception("request failed", request_id=exchange.request_id)
            message = f"something went wrong; the log has it under {exchange.request_id}"
            response = _problem(MainspringError(message), exchange)
        counted = (exchange.route.path if exchange.route else "", response.status)
        self.answers[counted] = self.answers.get(counted, 0) + 1
        await _send(exchange, response)

    async def _answer(self, exchange: "_Exchange") -> Response:
        scope = exchange.scope
        headers = exchange.headers
        raw_path = scope.get("raw_path") or scope["path"].encode()
        check_head(headers, raw_path, scope["query_string"])
        self._doorkeeper.check_host(headers)
        route, path = self.router.find(scope["method"], raw_path)
        exchange.route = route
        began = self._clock.monotonic()
        who = await in_time(self._doorkeeper.admit(headers, route, _names(scope)), PATIENCE_SECONDS)
        spent = self._clock.monotonic() - began
        query = None if route.query is None else _query(scope["query_string"], route.query)
        body, content_type = await _body(exchange, route)
        call = Call(
            who=who,
            path=path,
            query=query,
            body=body,
            content_type=content_type,
            headers=headers.by_name,
            request_id=exchange.request_id,
            address=_address(scope),
            action=route.action,
            left=partial(has_left, exchange.receive),
            spent_seconds=spent,
        )
        return await self._performer.perform(route, call)


class _Exchange:
    """One request on its way."""

    __slots__ = ("headers", "receive", "request_id", "route", "scope", "send")

    def __init__(self, scope: Scope, receive: Any, send: Any, *, request_id: str) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.request_id = request_id
        self.headers = Headers(scope["headers"])
        self.route: Route | None = None


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _names(scope: Scope) -> tuple[str, ...]:
    extensions = scope.get("extensions")
    names: tuple[str, ...] = extensions[CERTIFICATE]["names"] if extensions else ()
    return names


async def _body(exchange: _Exchange, route: Route) -> tuple[Any, str]:
    if route.body is None:
        return None, ""
    headers = exchange.headers
    data = await read_body(headers, exchange.receive, route.body_bytes_max)
    if not data and not route.body_required:
        return route.body(), ""
    content_type = check_type(headers, route.body_types)
    if route.raw_body:
        return data, content_type
    return converted(decode_body(data), route.body, strict=True), content_type


def _query(text: bytes, kind: type[msgspec.Struct]) -> msgspec.Struct:
    try:
        pairs = parse_qsl(
            text.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(text),
            errors="strict",
            max_num_fields=_PARAMETERS_MAX,
        )
    except ValueError:
        message = "the query is not name=value pairs in UTF-8, joined by &"
        raise MalformedRequest(message) from None
    given = dict(pairs)
    if len(given) < len(pairs):
        raise MalformedRequest("a name is in the query twice; keep one")
    query: msgspec.Struct = converted(given, kind, strict=False)
    for name, value in given.items():
        # The word null is no boolean, number or time; msgspec takes it for a missing value.
        if value.lower() == "null" and getattr(query, name, value) is None:
            raise InvalidValue(f"{name} is {value}; give a value or leave it out", field=name)
    return query


def _problem(error: MainspringError, exchange: _Exchange) -> Response:
    problem = problem_of(error, exchange.request_id)
    headers = []
    wait = retry_after(error)
    if wait is not None:
        headers.append((b"retry-after", str(wait).encode()))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", ", ".join(error.allow).encode()))
    if problem.status == 401:  # noqa: PLR2004 - the status that this header belongs to
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.status in {408, 413, 431}:
        # What else is on its way would be read for nothing.
        headers.append((b"connection", b"close"))
    return Response(
        status=problem.status,
        data=_ENCODER.encode(problem) + b"\n",
        content_type=PROBLEM_TYPE,
        headers=headers,
    )


async def _send(exchange: _Exchange, response: Response) -> None:
    headers = [
        (b"content-type", response.content_type.encode()),
        (b"x-request-id", exchange.request_id.encode()),
        *_FIXED_HEADERS,
        *response.headers,
    ]
    start = {"type": "http.response.start", "status": response.status, "headers": headers}
    if response.stream is not None:
        await exchange.send(start)
        await send_stream(response.stream, exchange.receive, exchange.send)
        return
    data = encoded(response)
    headers.append((b"content-length", str(len(data)).encode()))
    await exchange.send(start)
    await exchange.send({"type": "http.response.body", "body": data})
