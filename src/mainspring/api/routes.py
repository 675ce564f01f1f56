"""The table of routes: every path with its scope, what it takes and what it answers.

A route without a scope is public, and says so; the table is what the OpenAPI document, the checks
of access and the tests of both are made from.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from enum import StrEnum
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec

from mainspring.api.errors import MalformedRequest, MethodNotAllowed, RouteNotFound
from mainspring.api.http import Call, Response
from mainspring.api.limits import BODY_BYTES_MAX, JSON_TYPE
from mainspring.ports.access import Scope

PATIENCE_SECONDS: Final = 4.2
"""Whoever asks has an answer within five seconds, also when the store is silent and the machine is
busy: what is left of the five is for everything that is not waiting."""

Handler = Callable[[Call], Coroutine[Any, Any, Response]]


class Recording(StrEnum):
    """How the audit comes to its record of a route."""

    EACH = "each"
    """One record, on disk before the answer."""

    WITH_TASKS = "with_tasks"
    """The store writes it in the transaction of the tasks that are submitted."""

    SUMMED = "summed"
    """Counted, and recorded every few seconds for each key."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One verb of the API."""

    method: str
    path: str
    """With names in braces: /v1/tasks/{task_id}."""

    handler: Handler
    scope: Scope | None
    """None: public."""

    summary: str
    tag: str
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    body_required: bool = True
    body_types: tuple[str, ...] = (JSON_TYPE,)
    raw_body: bool = False
    """The handler reads the bytes itself."""

    body_bytes_max: int = BODY_BYTES_MAX
    header_parameters: tuple[tuple[str, dict[str, Any], str], ...] = ()
    answers: dict[int, Any] = {}
    answer_type: str = JSON_TYPE
    problems: tuple[int, ...] = ()
    patience_seconds: float | None = PATIENCE_SECONDS
    """How long to look for who asks and for the answer; None: the handler has bounds of its own."""

    action: str = ""
    """What the audit calls it; empty for what changes nothing."""

    recording: Recording = Recording.EACH

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path."""
        return tuple(self.path.strip("/").split("/"))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names in the path."""
        return tuple(part[1:-1] for part in self.segments if part.startswith("{"))

    @property
    def operation_id(self) -> str:
        """A name of its own: post_v1_tasks_task_id_cancel."""
        words = [part.strip("{}").replace("-", "_").replace(".", "_") for part in self.segments]
        return "_".join([self.method.lower(), *words])


_PATH_PARTS_MAX: Final = 8


class Router:
    """Finds routes by method and path."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        self._fixed: dict[bytes, dict[str, Route]] = {}
        self._open: list[tuple[tuple[str, ...], dict[str, Route]]] = []
        shapes: dict[tuple[str, ...], dict[str, Route]] = {}
        for route in routes:
            if route.parameters:
                shapes.setdefault(route.segments, {})[route.method] = route
            else:
                self._fixed.setdefault(route.path.encode(), {})[route.method] = route
        self._open.extend(shapes.items())

    def find(self, method: str, raw_path: bytes) -> tuple[Route, dict[str, str]]:
        """Return the route and the values in its path, or raise the problem for 404 and 405."""
        methods, values = self._methods(raw_path)
        route = methods.get(method)
        if route is not None:
            return route, values
        allow = tuple(sorted(methods))
        message = f"this path has no method {method[:20]}; it has {', '.join(allow)}"
        raise MethodNotAllowed(message, allow=allow)

    def _methods(self, raw_path: bytes) -> tuple[dict[str, Route], dict[str, str]]:
        fixed = self._fixed.get(raw_path)
        if fixed is not None:
            return fixed, {}
        parts = raw_path.strip(b"/").split(b"/")
        if raw_path[:1] == b"/" and len(parts) <= _PATH_PARTS_MAX and not raw_path.endswith(b"/"):
            for segments, methods in self._open:
                values = _match(segments, parts)
                if values is not None:
                    return methods, values
        message = "there is no such path; /v1/openapi.json lists them"
        raise RouteNotFound(message)


def _match(segments: tuple[str, ...], parts: Sequence[bytes]) -> dict[str, str] | None:
    if len(segments) != len(parts):
        return None
    values: dict[str, str] = {}
    for segment, part in zip(segments, parts, strict=True):
        if segment.startswith("{"):
            values[segment[1:-1]] = _decoded(part)
        elif segment.encode() != part:
            return None
    return values


def _decoded(part: bytes) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        message = "the path is not text in UTF-8"
        raise MalformedRequest(message) from None


def writing(routes: Sequence[Route]) -> Iterator[Route]:
    """Yield the routes that the audit records."""
    return (route for route in routes if route.action)
