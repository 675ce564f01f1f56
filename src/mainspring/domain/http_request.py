"""The task type `http`: what its payload may say, and what an answer means for the task."""

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple

import msgspec

from mainspring.domain.errors import InvalidValue
from mainspring.domain.targets import parse_target
from mainspring.domain.values import check_name, check_seconds, check_whole, shown

HTTP_TYPE: Final = "http"
TIMEOUT_SECONDS: Final = 10.0
TIMEOUT_SECONDS_MAX: Final = 3600.0
RESPONSE_BYTES_MAX: Final = 64 * 1024
REDIRECTS_MAX: Final = 5
RETRY_AFTER_SECONDS_MAX: Final = 3600.0
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
FIELDS: Final = (
    "url",
    "method",
    "headers",
    "body",
    "success",
    "timeout",
    "max_response_bytes",
    "keep_body",
    "redirects",
    "sign",
)

_HEADERS_MAX: Final = 50
_HEADERS_LENGTH_MAX: Final = 8192
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?|", re.ASCII)
_OURS: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers of the connection rather than of the request, and the one that names the server."""

_OUR_PREFIX: Final = "mainspring-"
_CLASS: Final = re.compile(r"[2-5]xx", re.ASCII)
_STATUS_MIN, _STATUS_MAX = 200, 599
_SUCCESS_MAX: Final = 50
_PLACE: Final = re.compile(r"\{\{(task_id|attempt|scheduled_at|nominal_at)\}\}")
_AGAIN: Final = frozenset({408, 425, 429})
_SERVER_ERROR: Final = 500
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_DIGITS_MAX: Final = 9


class HttpRequest(NamedTuple):
    """A checked payload."""

    url: str
    method: str
    headers: tuple[tuple[str, str], ...]
    body: str | None
    """Text in which placeholders are not filled in yet; None: no body."""

    success: tuple[int | str, ...]
    """Statuses, and classes of them such as `2xx`, with which the task is completed."""

    timeout: float
    max_response_bytes: int
    keep_body: bool
    redirects: int
    sign: str | None
    """Name of the secret that signs the body."""


def parse_request(payload: Mapping[str, Any], field: str = "payload") -> HttpRequest:
    """Check the payload of an `http` task, or raise `InvalidValue` naming the part.

    Whether the target is allowed is decided when the request is made, by the worker that makes it.
    """
    unknown = payload.keys() - set(FIELDS)
    if unknown:
        name = shown(min(unknown))[1:-1]
        message = f"{field}.{name} is not a field of an http task; there are: {', '.join(FIELDS)}"
        raise InvalidValue(message, field=f"{field}.{name}")
    given = {name: value for name, value in payload.items() if value is not None}
    parse_target(given.get("url"), f"{field}.url")
    headers = _headers(given.get("headers", {}), f"{field}.headers")
    body = given.get("body")
    if body is not None and not any(name.lower() == "content-type" for name, _ in headers):
        kind = "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
        headers = (*headers, ("Content-Type", kind))
    return HttpRequest(
        url=given["url"],
        method=_method(given.get("method", "GET" if body is None else "POST"), f"{field}.method"),
        headers=headers,
        body=body if body is None or isinstance(body, str) else _as_json(body),
        success=_success(given.get("success", ["2xx"]), f"{field}.success"),
        timeout=check_seconds(
            given.get("timeout", TIMEOUT_SECONDS), f"{field}.timeout", TIMEOUT_SECONDS_MAX
        ),
        max_response_bytes=check_whole(
            given.get("max_response_bytes", RESPONSE_BYTES_MAX),
            f"{field}.max_response_bytes",
            0,
            RESPONSE_BYTES_MAX,
        ),
        keep_body=_switch(given.get("keep_body", False), f"{field}.keep_body"),
        redirects=check_whole(given.get("redirects", 0), f"{field}.redirects", 0, REDIRECTS_MAX),
        sign=check_name(given["sign"], f"{field}.sign") if "sign" in given else None,
    )


class Facts(NamedTuple):
    """What a body may be told of the attempt that sends it."""

    task_id: str
    attempt: int
    scheduled_at: str
    nominal_at: str
    """Empty when no schedule made the task."""


def filled(body: str, facts: Facts) -> str:
    """Return a body with the placeholders `{{task_id}}`, `{{attempt}}`, `{{scheduled_at}}` and
    `{{nominal_at}}` filled in. Nothing is evaluated, and other braces stay as they are.
    """
    return _PLACE.sub(lambda place: str(getattr(facts, place[1])), body)


def is_success(status: int, success: tuple[int | str, ...]) -> bool:
    """Say whether a status is one with which the task is completed."""
    return status in success or f"{status // 100}xx" in success


def is_retryable(status: int) -> bool:
    """Say whether a status tells of something that may go away by itself."""
    return status in _AGAIN or status >= _SERVER_ERROR


def is_redirect(status: int) -> bool:
    """Say whether an answer sends the request on."""
    return status in _REDIRECTS


def retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds after which a server wants to be asked again, at most an hour.

    It is told in seconds or as a date; anything else is as if it were not there.
    """
    if value is None:
        return None
    if value.isascii() and value.isdecimal():
        seconds = float(value) if len(value) <= _DIGITS_MAX else RETRY_AFTER_SECONDS_MAX
    else:
        try:
            seconds = (parsedate_to_datetime(value) - now).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return min(max(seconds, 0.0), RETRY_AFTER_SECONDS_MAX)


def _method(value: object, field: str) -> str:
    if isinstance(value, str) and value.upper() in METHODS:
        return value.upper()
    message = f"{field} is {shown(value)}; choose from {', '.join(METHODS)}"
    raise InvalidValue(message, field=field)


def _headers(value: object, field: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping) or len(value) > _HEADERS_MAX:
        message = f"{field} is {shown(value)}; give an object with up to {_HEADERS_MAX} headers"
        raise InvalidValue(message, field=field)
    for name, text in value.items():
        where = f"{field}.{shown(name)[1:-1]}"
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            message = f"{where} is not the name of a header; use letters, digits and hyphens"
            raise InvalidValue(message, field=where)
        if name.lower() in _OURS or name.lower().startswith(_OUR_PREFIX):
            message = f"{where} is set by the worker itself; leave it out"
            raise InvalidValue(message, field=where)
        if not isinstance(text, str) or not _HEADER_VALUE.fullmatch(text):
            # Not shown: it may be a credential.
            message = (
                f"{where} is not the value of a header: text of printable ASCII characters on one "
                "line, with no space at its ends"
            )
            raise InvalidValue(message, field=where)
    if sum(len(name) + len(text) for name, text in value.items()) > _HEADERS_LENGTH_MAX:
        message = f"{field} is longer than {_HEADERS_LENGTH_MAX} characters; send less"
        raise InvalidValue(message, field=field)
    if len({name.lower() for name in value}) < len(value):
        raise InvalidValue(f"{field} names a header twice; keep one", field=field)
    return tuple(value.items())


def _success(value: object, field: str) -> tuple[int | str, ...]:
    codes = value if isinstance(value, list | tuple) else [value]
    if codes and len(codes) <= _SUCCESS_MAX and all(_is_code(code) for code in codes):
        return tuple(codes)
    message = (
        f"{field} is {shown(value)}; give statuses from {_STATUS_MIN} to {_STATUS_MAX} and classes "
        'such as "2xx" in a list'
    )
    raise InvalidValue(message, field=field)


def _is_code(code: object) -> bool:
    if isinstance(code, str):
        return _CLASS.fullmatch(code) is not None
    is_number = isinstance(code, int) and not isinstance(code, bool)
    return is_number and _STATUS_MIN <= code <= _STATUS_MAX  # type: ignore[operator]


def _switch(value: object, field: str) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidValue(f"{field} is {shown(value)}; give true or false", field=field)


def _as_json(body: object) -> str:
    return msgspec.json.encode(body).decode()
