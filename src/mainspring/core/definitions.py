"""From a handler's signature to the definition of its task type.

The annotations of the parameters become a msgspec Struct type, so a payload is checked, and its
values converted, before the handler is called: dates, UUIDs, enums, dataclasses and Structs arrive
as such, and an unknown or missing name is refused.
"""

import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mainspring.core.context import TaskContext
from mainspring.core.key_rules import key_rule
from mainspring.core.registry import Mode, TaskDefinition
from mainspring.domain.errors import InvalidValue
from mainspring.domain.values import check_name

_CONTEXT_NAME: Final = "ctx"
_VALUE: Final = re.compile(r"^(Invalid (?:enum )?value) .*", re.DOTALL)

Arguments = dict[str, Any]


def define(
    name: str,
    handler: Callable[..., Any],
    *,
    process: bool = False,
    group_key: object = None,
    unique_key: object = None,
    **defaults: Any,
) -> TaskDefinition:
    """Return the definition of a task type; `defaults` are further fields of `TaskDefinition`.
    The keys are text, or functions of the handler's parameters.

    Raises `InvalidValue` for the field `handler` when its signature cannot take a payload.
    """
    check_name(name, "name")
    if inspect.isclass(handler):
        raise _refused(name, "is a class; register a 'def' or an 'async def'")
    if _is_generator(handler):
        raise _refused(name, "is a generator, which would never run; remove its 'yield'")
    parameters = _parameters(name, handler)
    hints = _hints(name, handler)
    takes_context = bool(parameters) and _is_context(parameters[0], hints)
    if takes_context:
        parameters = parameters[1:]
    payload = _struct(name, parameters, hints)
    known = payload.__struct_fields__ if payload.__struct_config__.forbid_unknown_fields else None
    return TaskDefinition(
        name=name,
        handler=handler,
        mode=_mode(handler, process=process),
        takes_context=takes_context,
        parameters=payload,
        group_key=key_rule("group_key", group_key, known),
        unique_key=key_rule("unique_key", unique_key, known),
        **defaults,
    )


def is_async(handler: Callable[..., Any]) -> bool:
    """Whether calling the handler makes a coroutine."""
    called = type(handler).__call__ if not inspect.isroutine(handler) else handler
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)


def named(
    definition: TaskDefinition, given: Sequence[Any], by_name: Mapping[str, Any]
) -> Arguments:
    """Return parameters by name, of which the first were given by position.

    Raises `InvalidValue` for more of them than the handler has, or for one that is given twice.
    """
    names = definition.parameters.__struct_fields__
    if len(given) > len(names):
        raise InvalidValue(
            f"payload has {len(given)} values by position, and task type {definition.name!r} has "
            f"{len(names)} parameters: {', '.join(names) or 'none'}",
            field="payload",
        )
    arguments = dict(zip(names, given, strict=False))
    for name in by_name:
        if name in arguments:
            field = f"payload.{name}"
            raise InvalidValue(f"{field} is given by position and by name; keep one", field=field)
    return {**arguments, **by_name}


def arguments_of(definition: TaskDefinition, payload: Any) -> Arguments:
    """Return the handler's keyword arguments for a decoded payload.

    Raises `msgspec.ValidationError` when it does not fit the signature.
    """
    kind = definition.parameters
    arguments = _given(msgspec.convert(payload, kind, dec_hook=_convert_custom))
    if takes_any_name(definition):
        known = kind.__struct_fields__
        arguments.update((name, value) for name, value in payload.items() if name not in known)
    return arguments


def payload_check(definition: TaskDefinition) -> Callable[[str], object]:
    """Return a function that takes a payload's JSON text and raises `msgspec.ValidationError`, or
    another `ValueError`, unless the handler would accept it. Made once, it is quick for each text.
    """
    return msgspec.json.Decoder(definition.parameters, dec_hook=_convert_custom).decode


def misfit(error: Exception) -> tuple[str, str]:
    """Return what does not fit and where in the payload, without the value that was given: nobody
    looks for it in messages and logs.
    """
    # msgspec says where as "... - at `$.name`"; other validators have words of their own.
    text, _, where = str(error).partition(" - at `$")
    return _VALUE.sub(r"\1", text), "payload" + where.rstrip("`")


def payload_reader(definition: TaskDefinition) -> Callable[[str], Arguments]:
    """Return a function from a payload's JSON text to the handler's keyword arguments.

    It raises `msgspec.MsgspecError` (of which `ValidationError` is one) or `ValueError` when the
    text does not fit. Made once for a definition, it is quick for each payload.
    """
    if takes_any_name(definition):
        return lambda text: arguments_of(definition, msgspec.json.decode(text))
    decode = msgspec.json.Decoder(definition.parameters, dec_hook=_convert_custom).decode
    if not definition.parameters.__struct_fields__:
        return lambda text: {} if text == "{}" else _given(decode(text))
    if definition.parameters.__struct_defaults__:
        return lambda text: _given(decode(text))
    as_dict = msgspec.structs.asdict
    return lambda text: as_dict(decode(text))


def takes_any_name(definition: TaskDefinition) -> bool:
    """Whether the handler has `**kwargs`, so that names it does not list are passed on too."""
    return not definition.parameters.__struct_config__.forbid_unknown_fields


def _given(arguments: msgspec.Struct) -> Arguments:
    """What was not in the payload is left out, so that the handler's own defaults apply."""
    return {
        name: value
        for name, value in msgspec.structs.asdict(arguments).items()
        if value is not msgspec.UNSET
    }


def _mode(handler: Callable[..., Any], *, process: bool) -> Mode:
    if process:
        return Mode.PROCESS
    return Mode.ASYNC if is_async(handler) else Mode.THREAD


def _is_generator(handler: Callable[..., Any]) -> bool:
    return inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler)


def _parameters(name: str, handler: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError):
        raise _refused(name, "is no function with a signature; wrap it in a 'def'") from None


def _hints(name: str, handler: Callable[..., Any]) -> dict[str, Any]:
    """Resolve annotations, strings included, in the module where the function was written."""
    function = inspect.unwrap(handler)
    if not inspect.isroutine(function):
        function = type(function).__call__
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise _refused(
            name,
            f"has an annotation that cannot be resolved ({error}); "
            "use types that exist when the module is imported",
        ) from None


def _is_context(parameter: inspect.Parameter, hints: dict[str, Any]) -> bool:
    annotation = hints.get(parameter.name)
    if annotation is None:
        return parameter.name == _CONTEXT_NAME
    return inspect.isclass(annotation) and issubclass(annotation, TaskContext)


def _struct(name: str, parameters: list[inspect.Parameter], hints: dict[str, Any]) -> Any:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    takes_any = False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
            continue
        _check_kind(name, parameter, hints)
        kind = hints.get(parameter.name, Any)
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind | msgspec.UnsetType, msgspec.UNSET))
    try:
        struct = msgspec.defstruct(
            "Payload", fields, kw_only=True, forbid_unknown_fields=not takes_any
        )
        # The schema is not kept: making it finds classes that cannot be made from JSON.
        msgspec.json.schema(struct, schema_hook=_accept_custom)
    except (TypeError, ValueError) as error:
        raise _refused(name, f"has parameters that no payload can fill: {error}") from None
    return struct


def _check_kind(name: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> None:
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise _refused(
            name, f"has *{parameter.name}, but a payload has names only; use a list parameter"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise _refused(
            name, f"has the positional-only parameter {parameter.name}; remove the '/' after it"
        )
    if _is_context(parameter, hints) and hints.get(parameter.name) is not None:
        raise _refused(
            name, f"takes the TaskContext as {parameter.name}; it has to be the first parameter"
        )


def _accept_custom(kind: type) -> dict[str, Any]:
    if callable(getattr(kind, "model_validate", None)):
        return {"type": "object"}
    raise TypeError(f"{kind.__name__} cannot be made from JSON")


def _convert_custom(kind: Any, value: Any) -> Any:
    """Make a value of a class that validates for itself, as pydantic models do."""
    return kind.model_validate(value)


def _refused(name: str, problem: str) -> InvalidValue:
    return InvalidValue(f"the handler of task type {name!r} {problem}", field="handler")
