"""Keys that tasks of a type have by default: `@app.task(unique_key=lambda customer: ...)`."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from mainspring.domain.errors import InvalidValue
from mainspring.domain.values import check_key, kind_of

KeySource = str | Callable[..., str | None]
"""A key, or a function of the handler's parameters that returns one, or None for no key."""


class KeyRule(msgspec.Struct, frozen=True):
    """Where the key of a task comes from when a submission does not give one."""

    field: str
    source: KeySource
    names: tuple[str, ...] | None = None
    """Of the handler's parameters those that the function takes; None: all."""

    def key_of(self, arguments: Callable[[], Mapping[str, Any]]) -> str | None:
        """Return the key for what `arguments` returns: the parameters as the handler will get them.

        Raises `InvalidValue` for what is no key, and whatever the function raises.
        """
        if isinstance(self.source, str):
            return self.source
        given = arguments()
        if self.names is not None:
            given = {name: given[name] for name in self.names if name in given}
        key: object = self.source(**given)
        return None if key is None else check_key(key, self.field, _what(self.field))


def key_rule(field: str, source: object, parameters: Sequence[str] | None) -> KeyRule | None:
    """Return the rule that a decorator gives for a key, or None.

    `parameters` has the names of the handler's parameters; None: it takes any. Raises
    `InvalidValue` for a function that takes others, which could never be called.
    """
    if source is None:
        return None
    if isinstance(source, str):
        return KeyRule(field, check_key(source, field, _what(field)))
    if not callable(source):
        message = (
            f"{field} is {kind_of(source)}; give text, or a function of the handler's parameters "
            "that returns it"
        )
        raise InvalidValue(message, field=field)
    return KeyRule(field, source, _names(field, source, parameters))


def _names(
    field: str, function: Callable[..., Any], parameters: Sequence[str] | None
) -> tuple[str, ...] | None:
    found: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            return None
        is_named = parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}
        if not is_named or (parameters is not None and name not in parameters):
            known = ", ".join(parameters or ()) or "none"
            message = (
                f"{field} is a function that takes {name}, which is no parameter of the handler; "
                f"it may take: {known}"
            )
            raise InvalidValue(message, field=field)
        found.append(name)
    return tuple(found)


def _what(field: str) -> str:
    return f"a {field.replace('_', ' ')}"
