"""One request to the API: what is sent, what an answer means, and whether to send it again.

No input or output happens here. A caller sends the request of a `Trial`, hands it the answer or
the failure, and is told the result, or for how long to pause before the next attempt.
"""

import dataclasses
import math
import ssl
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import httpx
import msgspec

from mainspring.client.problems import error_of, seconds_of
from mainspring.domain.errors import (
    InvalidValue,
    MainspringError,
    OutcomeUnknown,
    StoreUnavailable,
    Unavailable,
)
from mainspring.ports.clock import Clock

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")

TIMEOUT_SECONDS: Final = 30.0
TRIES: Final = 6
PAUSE_SECONDS: Final = 0.2
PAUSE_SECONDS_MAX: Final = 5.0
_LAST_GOOD: Final = 299
_NEVER_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

FAILURES: Final = (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError)
"""What sending may raise."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request(Generic[T_co]):
    """What is asked of the API."""

    method: str
    path: str
    kind: type[T_co]
    """What the answer is read as."""

    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    is_repeatable: bool = False
    """Doing it twice is the same as doing it once, so it is sent again when its answer is lost."""

    @property
    def target(self) -> str:
        """The path with its query."""
        return self.path + (f"?{urlencode(self.query)}" if self.query else "")


class Reply(NamedTuple):
    """What the API answered."""

    status: int
    retry_after: str | None
    body: bytes


def get(path: str, query: Mapping[str, Any] | None = None) -> Request[dict[str, Any]]:
    """Return a request that only looks."""
    given = {name: _text(value) for name, value in (query or {}).items() if value is not None}
    return Request(
        method="GET", path=path, kind=dict, query=tuple(given.items()), is_repeatable=True
    )


def send(
    method: str, path: str, body: Mapping[str, Any] | None, *, is_repeatable: bool = False
) -> Request[dict[str, Any]]:
    """Return a request that changes something."""
    data = None if body is None else msgspec.json.encode(body)
    return Request(method=method, path=path, kind=dict, body=data, is_repeatable=is_repeatable)


def read_as(request: Request[Any], kind: type[U]) -> Request[U]:
    """Return the same request with its answer read as another type."""
    return dataclasses.replace(request, kind=kind)


def in_path(value: object) -> str:
    """Return a value as a part of a path."""
    return quote(str(value), safe="")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, datetime) else str(value)


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


class Address:
    """Where the API is, and what every request says of who asks."""

    def __init__(self, api_url: str, api_key: str = "", tls: ssl.SSLContext | None = None) -> None:
        try:
            parts = urlsplit(api_url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            message = "api_url is no address of an API; write http://host:8400"
            raise InvalidValue(message, field="api_url")
        if not (api_key or "-").isprintable() or not api_key.isascii():
            message = "api_key is no key; give it as `mainspring keys create` printed it"
            raise InvalidValue(message, field="api_key")
        self.url = api_url.rstrip("/")
        self.host = f"{parts.hostname}:{port}" if port else parts.hostname
        # The environment is read by `mainspring.config` alone, so no proxy is taken from it.
        is_https = parts.scheme == "https"
        self.tls = (tls or ssl.create_default_context()) if is_https else None
        self.trust = self.tls or False
        self.headers = {"Accept": "application/json"}
        if api_key:
            self.headers["Authorization"] = f"Bearer {api_key}"


class Trial(Generic[T]):
    """The attempts at one request, for a bounded time.

    `patient` goes on for all of the time; otherwise a few attempts have to do.
    """

    def __init__(
        self, request: Request[T], host: str, clock: Clock, seconds: float, *, patient: bool = False
    ) -> None:
        self.request = request
        self._host = host
        self._clock = clock
        self._end = clock.monotonic() + seconds
        self._tries = math.inf if patient else TRIES
        self._count = 0
        self._asked = 0.0
        """The pause that the last answer asked for."""

    def seconds_left(self) -> float:
        """Return how long the next attempt may take."""
        return max(0.01, self._end - self._clock.monotonic())

    def is_over(self) -> bool:
        """Whether the time is up."""
        return self._clock.monotonic() >= self._end

    def result(self, reply: Reply) -> T:
        """Return what an answer says, or raise the error that it stands for."""
        if reply.status > _LAST_GOOD:
            self._asked = seconds_of(reply.retry_after)
            raise error_of(reply.status, reply.retry_after, reply.body)
        try:
            return msgspec.json.decode(reply.body, type=self.request.kind)
        except msgspec.MsgspecError as error:
            message = f"{self._host} answers as an API of Mainspring would not: {error}"
            raise StoreUnavailable(message) from None

    def pause_after(self, failure: Exception) -> float:
        """Return for how long to pause before the next attempt; raises when there is none."""
        error = self.error_of(failure)
        self._count += 1
        is_unknown = isinstance(error, OutcomeUnknown) and not self.request.is_repeatable
        if is_unknown or not isinstance(error, Unavailable) or self._count >= self._tries:
            raise error from failure
        seconds = max(self._asked, min(PAUSE_SECONDS * 2.0 ** (self._count - 1), PAUSE_SECONDS_MAX))
        self._asked = 0.0
        if seconds >= self._end - self._clock.monotonic():
            raise error from failure
        return seconds

    def error_of(self, failure: Exception) -> MainspringError:
        """Return a failure in the words of Mainspring."""
        if isinstance(failure, MainspringError):
            return failure
        why = str(failure) or type(failure).__name__
        message = (
            f"the API at {self._host} cannot be reached ({why.rstrip('.')}); check that it runs "
            "there and that api_url is right"
        )
        if self.request.is_repeatable or isinstance(failure, _NEVER_SENT):
            return StoreUnavailable(message)
        return OutcomeUnknown(
            f"{message}; nobody knows whether it was done, so look before you repeat it"
        )
