"""GraphQL types made from the structs that the REST API answers with, so that both say the same."""

import dataclasses
import types
from collections.abc import AsyncGenerator
from datetime import datetime
from enum import Enum
from typing import Any, Final, NewType, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec
import strawberry
from strawberry.types.scalar import ScalarDefinition

from mainspring.core.lifecycle import task_id_of
from mainspring.domain.values import parse_instant

Json = NewType("Json", object)
Whole = NewType("Whole", int)

_NAMES: Final = {
    "StatsOut": "Stats",
    "LevelOut": "LevelStats",
    "TaskEventOut": "TaskEvent",
    "QueueLimitsView": "QueueLimits",
    "GroupLimitView": "GroupLimit",
}
_WIDE: Final = frozenset({"fencing_token"})
"""Whole numbers that 32 bits, which is what GraphQL's Int has, do not hold."""

_ATOMS: Final = frozenset({str, int, float, bool, UUID, datetime})


def _task_id(value: object) -> UUID:
    return task_id_of(value, "id")


def _instant(value: object) -> datetime:
    return parse_instant(value if isinstance(value, str) else "", "the instant")


SCALARS: Final[dict[object, ScalarDefinition]] = {
    UUID: strawberry.scalar(
        name="UUID",
        description="An id, such as the one that submitting a task answers.",
        parse_value=_task_id,
    ),
    datetime: strawberry.scalar(
        name="Instant",
        description="ISO 8601 with an offset from UTC, 1970 to 2199.",
        parse_value=_instant,
    ),
    Json: strawberry.scalar(name="JSON", description="Any value of JSON, as it was stored."),
    Whole: strawberry.scalar(name="Whole", description="A whole number of up to 64 bits."),
}


class Types:
    """The types made so far: one for each struct and each enum."""

    def __init__(self) -> None:
        self._made: dict[type, Any] = {}

    def of(self, kind: type[msgspec.Struct]) -> Any:
        """Return the object type that stands for a struct."""
        if kind not in self._made:
            hints = get_type_hints(kind)
            fields = [
                (field.name, self._annotation(field.name, hints[field.name]))
                for field in msgspec.structs.fields(kind)
            ]
            name = _NAMES.get(kind.__name__, kind.__name__)
            shell = dataclasses.make_dataclass(name, fields)
            described = (kind.__doc__ or "").strip().partition("\n\n")[0]
            self._made[kind] = strawberry.type(shell, name=name, description=described)
        return self._made[kind]

    def maybe(self, kind: type[msgspec.Struct]) -> Any:
        """Return the type of a field that may fail without its neighbours."""
        return self.of(kind) | None

    def many(self, kind: type[msgspec.Struct]) -> Any:
        """Return the type of a list that may fail without its neighbours."""
        return types.GenericAlias(list, (self.of(kind),)) | None

    def stream(self, kind: type[msgspec.Struct]) -> Any:
        """Return the type of what a subscription yields."""
        return types.GenericAlias(AsyncGenerator, (self.of(kind), None))

    def choice(self, kind: type[Enum]) -> Any:
        """Return the GraphQL enum that stands for an enum."""
        if kind not in self._made:
            described = (kind.__doc__ or "").strip().partition("\n\n")[0]
            self._made[kind] = strawberry.enum(kind, description=described)
        return self._made[kind]

    def _annotation(self, name: str, hint: Any) -> Any:
        if get_origin(hint) in {Union, types.UnionType}:
            (inner,) = (part for part in get_args(hint) if part is not type(None))
            return self._annotation(name, inner) | None
        if get_origin(hint) in {list, tuple}:
            return types.GenericAlias(list, (self._annotation(name, get_args(hint)[0]),))
        if hint is int and name in _WIDE:
            return Whole
        return hint if hint in _ATOMS else self._named(hint)

    def _named(self, hint: Any) -> Any:
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return self.of(hint)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return self.choice(hint)
        return Json
