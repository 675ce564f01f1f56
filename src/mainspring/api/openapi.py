"""The OpenAPI 3.1 document, made from the table of routes and the structs of the wire."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mainspring.api.errors import PROBLEM_TYPE, Problem
from mainspring.api.limit_schemas import RATE_PATTERN
from mainspring.api.limits import NDJSON_TYPE
from mainspring.api.routes import Route
from mainspring.api.streams import STREAM_TYPE

_REF: Final = "#/components/schemas/{name}"
_TASK_ID: Final = {"type": "string", "format": "uuid"}
_NAME: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": 200,
    "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$",
}
_GROUP_KEY: Final = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"}
_PATH_SCHEMAS: Final = {"task_id": _TASK_ID, "group_key": _GROUP_KEY}
_ALWAYS: Final = (400, 405, 431)
_WITH_KEY: Final = (401, 403)
_WITH_BODY: Final = (408, 413, 415, 422)
_WITH_STORE: Final = (503,)

_EXTRA: Final[dict[str, dict[str, Any]]] = {
    "TaskIn": {
        "not": {
            "anyOf": [
                {
                    "required": ["scheduled_at", "delay"],
                    "properties": {"scheduled_at": {"type": "string"}, "delay": {"type": "number"}},
                },
                {
                    "required": ["key", "unique_key"],
                    "properties": {"key": {"type": "string"}, "unique_key": {"type": "string"}},
                },
            ]
        }
    },
    "LimitIn": {
        "allOf": [
            {"properties": {"rate": {"if": {"type": "string"}, "then": {"pattern": RATE_PATTERN}}}},
            {
                "anyOf": [
                    {"properties": {"burst": {"type": "null"}}},
                    {
                        "required": ["rate"],
                        "properties": {"rate": {"type": ["number", "string"]}},
                    },
                ]
            },
        ]
    },
    "QueueLimitsIn": {"anyOf": [{"required": ["queue"]}, {"required": ["group"]}]},
    "ReplayIn": {
        "oneOf": [
            {"required": ["ids"]},
            {"required": ["task_type"]},
            {"required": ["all"], "properties": {"all": {"const": True}}},
        ]
    },
}
_EXTRA["DiscardIn"] = _EXTRA["ReplayIn"]
"""What the types alone do not say."""


def document(routes: Sequence[Route], version: str, *, with_keys: bool) -> dict[str, Any]:
    """Return the document for these routes."""
    types = _types(routes)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    known = dict(zip(map(id, types), schemas, strict=True))
    for name, extra in _EXTRA.items():
        if name in components:
            components[name].update(extra)
    if "BatchIn" in components:
        # Each is answered for on its own, so one that is wrong does not make the batch wrong.
        tasks = components["BatchIn"]["properties"]["tasks"]
        tasks["items"] = {"anyOf": [tasks["items"], {}]}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, known, components, with_keys=with_keys)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    parts: dict[str, Any] = {"schemas": components}
    if with_keys:
        parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Mainspring", "version": version, "summary": "A task scheduler"},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": parts,
    }


def _types(routes: Sequence[Route]) -> list[Any]:
    found: list[Any] = [Problem]
    for route in routes:
        found.extend(kind for kind in (route.body, *route.answers.values()) if kind is not None)
    return [kind for at, kind in enumerate(found) if all(kind is not one for one in found[:at])]


def _operation(
    route: Route,
    known: dict[int, Any],
    components: dict[str, Any],
    *,
    with_keys: bool,
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation_id,
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": _parameters(route, components),
        "responses": _responses(route, known, with_keys=with_keys),
    }
    if route.body is not None:
        schema = known[id(route.body)]
        content: dict[str, Any] = {route.body_types[0]: {"schema": schema}}
        if NDJSON_TYPE in route.body_types:
            content[NDJSON_TYPE] = {
                "schema": {"type": "string", "description": "A TaskIn a line"},
            }
        operation["requestBody"] = {"required": route.body_required, "content": content}
    if route.scope is not None and with_keys:
        operation["security"] = [{"key": []}]
        operation["x-scope"] = route.scope.value
    return operation


def _parameters(route: Route, components: dict[str, Any]) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _PATH_SCHEMAS.get(name, _NAME),
        }
        for name in route.parameters
    ]
    if route.query is not None:
        (reference,), parts = msgspec.json.schema_components([route.query], ref_template=_REF)
        own = parts.pop(reference["$ref"].rpartition("/")[2])
        components.update(parts)
        parameters.extend(
            {"name": name, "in": "query", "required": False, "schema": _not_null(schema)}
            for name, schema in own["properties"].items()
        )
    parameters.extend(
        {"name": name, "in": "header", "required": False, "schema": schema, "description": text}
        for name, schema, text in route.header_parameters
    )
    return parameters


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query has no null: what is not given is left out."""
    options = schema.get("anyOf")
    if options is None:
        return schema
    left = [option for option in options if option != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name not in {"anyOf", "default"}}
    return {**left[0], **rest} if len(left) == 1 else {**rest, "anyOf": left}


def _responses(route: Route, known: dict[int, Any], *, with_keys: bool) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, kind in route.answers.items():
        # The data of an event is another object for each kind of event.
        schema = {} if route.answer_type == STREAM_TYPE else known[id(kind)]
        responses[str(status)] = {
            "description": "Done" if status < 300 else "Not available",  # noqa: PLR2004
            "content": {route.answer_type.partition(";")[0]: {"schema": schema}},
        }
    problems = {*_ALWAYS, *route.problems}
    if route.scope is not None and with_keys:
        problems.update(_WITH_KEY)
    if route.scope is not None:
        problems.update(_WITH_STORE)
    if route.scope is not None and not with_keys:
        problems.update({403, 421})
    if route.body is not None:
        problems.update(_WITH_BODY)
    if route.query is not None or route.parameters:
        problems.update({422, 404} if route.parameters else {422})
    for status in sorted(problems):
        responses.setdefault(
            str(status),
            {
                "description": "A problem",
                "content": {PROBLEM_TYPE: {"schema": known[id(Problem)]}},
            },
        )
    return responses
