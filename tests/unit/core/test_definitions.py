"""From signatures to checked arguments."""

import functools
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest

from mainspring.core.context import TaskContext
from mainspring.core.definitions import arguments_of, define, payload_reader
from mainspring.core.registry import Mode
from mainspring.domain.errors import InvalidValue


class Colour(Enum):
    RED = "red"


@dataclass
class Address:
    street: str
    number: int = 1


def read(handler: Any, text: str) -> dict[str, Any]:
    return payload_reader(define("work", handler))(text)


def test_values_arrive_as_what_the_annotations_say() -> None:
    def handler(
        when: datetime, who: UUID, colour: Colour, to: Address, kind: Literal["a", "b"], rest: Any
    ) -> None: ...

    payload = {
        "when": "2026-05-12T15:00:00Z",
        "who": "12345678-1234-5678-1234-567812345678",
        "colour": "red",
        "to": {"street": "High"},
        "kind": "a",
        "rest": [1],
    }
    assert read(handler, msgspec.json.encode(payload).decode()) == {
        "when": datetime(2026, 5, 12, 15, tzinfo=UTC),
        "who": UUID("12345678-1234-5678-1234-567812345678"),
        "colour": Colour.RED,
        "to": Address("High"),
        "kind": "a",
        "rest": [1],
    }


def test_the_handlers_own_defaults_apply() -> None:
    def handler(a: int, b: list[int] = [1], *, c: int | None = None) -> None: ...  # noqa: B006

    assert read(handler, '{"a": 1}') == {"a": 1}
    assert read(handler, '{"a": 1, "b": [], "c": null}') == {"a": 1, "b": [], "c": None}


def test_no_annotation_means_anything() -> None:
    def handler(a, b=2): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202

    assert read(handler, '{"a": {"x": 1}}') == {"a": {"x": 1}}


def test_annotations_that_are_text_are_resolved() -> None:
    def handler(ctx: "TaskContext", a: "int") -> None: ...

    definition = define("work", handler)
    assert definition.takes_context
    with pytest.raises(msgspec.ValidationError, match="Expected `int`"):
        payload_reader(definition)('{"a": "1"}')


@pytest.mark.parametrize(
    "text", ['{"a": "1"}', '{"a": 1, "z": 1}', "{}", '{"a": null}', "[]", '{"a": 1.5}', "1"]
)
def test_what_does_not_fit_is_refused(text: str) -> None:
    def handler(a: int) -> None: ...

    with pytest.raises(msgspec.ValidationError):
        read(handler, text)
    with pytest.raises(msgspec.ValidationError):
        arguments_of(define("work", handler), msgspec.json.decode(text))


def test_a_handler_without_parameters_takes_an_empty_object_only() -> None:
    def handler() -> None: ...

    assert read(handler, "{}") == {}
    assert read(handler, " { } ") == {}
    with pytest.raises(msgspec.ValidationError):
        read(handler, '{"a": 1}')


def test_further_names_go_to_keyword_arguments() -> None:
    def handler(a: int, **more: Any) -> None: ...

    assert read(handler, '{"a": 1, "b": 2, "c": [3]}') == {"a": 1, "b": 2, "c": [3]}
    with pytest.raises(msgspec.ValidationError):
        read(handler, '{"a": "x", "b": 2}')


def test_a_context_is_known_by_its_annotation_or_its_name() -> None:
    def annotated(context: TaskContext, a: int) -> None: ...

    def named(ctx, a: int) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001

    def neither(context: str, a: int) -> None: ...

    def ctx_of_their_own(ctx: str) -> None: ...

    assert define("work", annotated).takes_context
    assert define("work", named).takes_context
    assert not define("work", neither).takes_context
    assert not define("work", ctx_of_their_own).takes_context


class Callable:
    async def __call__(self, a: int) -> None: ...


def test_the_mode_follows_the_handler() -> None:
    async def coroutine(a: int) -> None: ...

    def plain(a: int) -> None: ...

    assert define("work", coroutine).mode is Mode.ASYNC
    assert define("work", functools.partial(coroutine)).mode is Mode.ASYNC
    assert define("work", Callable()).mode is Mode.ASYNC
    assert define("work", plain).mode is Mode.THREAD
    assert define("work", plain, process=True).mode is Mode.PROCESS


class Model:
    """Validates for itself, as pydantic models do."""

    def __init__(self, size: int) -> None:
        self.size = size

    @classmethod
    def model_validate(cls, value: Any) -> "Model":
        if not isinstance(value, dict) or not isinstance(value.get("size"), int):
            raise ValueError("size is missing")  # noqa: TRY004
        return cls(value["size"])


def test_models_that_validate_for_themselves_are_parameters() -> None:
    def handler(model: Model) -> None: ...

    assert read(handler, '{"model": {"size": 3}}')["model"].size == 3
    with pytest.raises(msgspec.ValidationError, match="size is missing"):
        read(handler, '{"model": {}}')


class Plain:
    pass


def star(*names: str) -> None: ...
def positional(a: int, /) -> None: ...
def late_context(a: int, ctx: TaskContext) -> None: ...
def impossible(a: set[int] | list[int]) -> None: ...
def no_json(a: Plain) -> None: ...
def unknown(a: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def generator() -> Any:
    yield 1


async def async_generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (star, r"has \*names"),
        (positional, "positional-only parameter a"),
        (late_context, "TaskContext as ctx; it has to be the first"),
        (impossible, "no payload can fill"),
        (no_json, "Plain cannot be made from JSON"),
        (unknown, "annotation that cannot be resolved"),
        (generator, "is a generator"),
        (async_generator, "is a generator"),
        (Plain, "is a class"),
        (5, "is no function"),
    ],
)
def test_signatures_that_cannot_take_a_payload_are_refused(handler: Any, told: str) -> None:
    with pytest.raises(InvalidValue, match=told) as raised:
        define("work", handler)
    assert raised.value.field == "handler"
    assert "'work'" in str(raised.value)
