"""One table from the errors of the domain to the codes of HTTP and gRPC, and how one is written."""

from typing import Any, Final, NamedTuple

import msgspec

from mainspring.domain.errors import (
    Conflict,
    Forbidden,
    InvalidValue,
    KeyConflict,
    MainspringError,
    NotFound,
    OutcomeUnknown,
    Overloaded,
    PayloadTooLarge,
    QuotaExceeded,
    SetupError,
    StaleLease,
    Unauthenticated,
    Unavailable,
)

PROBLEM_TYPE: Final = "application/problem+json"
_DETAIL_MAX: Final = 1000
RETRY_SECONDS: Final = 1
"""What `Retry-After` says when a part is down and nobody knows for how long."""


class RequestProblem(MainspringError):
    """The request is not one that this server understands or takes."""

    code = "request_problem"


class MalformedRequest(RequestProblem):
    """The request, or the JSON in it, is not well formed."""

    code = "malformed_request"


class UnsupportedMediaType(RequestProblem):
    """The body is of another type, or in another encoding, than the API takes."""

    code = "unsupported_media_type"


class HeadersTooLarge(RequestProblem):
    """The head of the request is larger than any of the API would be."""

    code = "headers_too_large"


class RequestTimeout(RequestProblem):
    """The request did not arrive in time."""

    code = "request_timeout"


class RouteNotFound(RequestProblem):
    """The API has no such path."""

    code = "route_not_found"


class MethodNotAllowed(RequestProblem):
    """The path has other methods than this one."""

    code = "method_not_allowed"

    def __init__(
        self, message: str, *, field: str | None = None, allow: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, field=field)
        self.allow = allow
        """The methods that it has."""


class WrongHost(RequestProblem):
    """The request names a host that this server is not."""

    code = "wrong_host"


class ServerStopping(Unavailable):
    """This server ends its streams; another one, or it when it is back, goes on with them."""

    code = "server_stopping"


class BatchUnanswered(OutcomeUnknown):
    """The store answered for no task of a batch, and some of them may have been stored."""

    def __init__(
        self, message: str, *, field: str | None = None, results: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(message, field=field)
        self.results = results
        """What is known of each task, as in the answer to any other batch."""


class Codes(NamedTuple):
    """What stands for an error in each protocol."""

    http: int
    grpc: str


CODES: Final[tuple[tuple[type[MainspringError], Codes], ...]] = (
    (UnsupportedMediaType, Codes(415, "INVALID_ARGUMENT")),
    (HeadersTooLarge, Codes(431, "INVALID_ARGUMENT")),
    (RequestTimeout, Codes(408, "DEADLINE_EXCEEDED")),
    (RouteNotFound, Codes(404, "UNIMPLEMENTED")),
    (MethodNotAllowed, Codes(405, "UNIMPLEMENTED")),
    (WrongHost, Codes(421, "PERMISSION_DENIED")),
    (RequestProblem, Codes(400, "INVALID_ARGUMENT")),
    (PayloadTooLarge, Codes(413, "INVALID_ARGUMENT")),
    (InvalidValue, Codes(422, "INVALID_ARGUMENT")),
    (NotFound, Codes(404, "NOT_FOUND")),
    (StaleLease, Codes(409, "ABORTED")),
    (KeyConflict, Codes(409, "ALREADY_EXISTS")),
    (Conflict, Codes(409, "FAILED_PRECONDITION")),
    (Unauthenticated, Codes(401, "UNAUTHENTICATED")),
    (Forbidden, Codes(403, "PERMISSION_DENIED")),
    (Overloaded, Codes(503, "RESOURCE_EXHAUSTED")),
    (QuotaExceeded, Codes(429, "RESOURCE_EXHAUSTED")),
    (OutcomeUnknown, Codes(503, "UNAVAILABLE")),
    (Unavailable, Codes(503, "UNAVAILABLE")),
    (SetupError, Codes(503, "UNAVAILABLE")),
    (MainspringError, Codes(500, "INTERNAL")),
)
"""The first row whose class fits counts."""

_TITLES: Final = {
    400: "Malformed request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "Request took too long",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    421: "Misdirected request",
    422: "Invalid value",
    429: "Too many requests",
    431: "Headers too large",
    500: "Internal error",
    503: "Not available now",
}


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as RFC 9457 has it, with a stable code and the field that it is about."""

    title: str
    status: int
    code: str
    detail: str
    field: str | None = None
    request_id: str | None = None
    results: tuple[Any, ...] = ()


def codes_of(error: MainspringError) -> Codes:
    """Return what stands for an error in each protocol."""
    return next(codes for kind, codes in CODES if isinstance(error, kind))


def problem_of(error: MainspringError, request_id: str | None = None) -> Problem:
    """Return an error as it is written. What went wrong inside is not told outside."""
    status = codes_of(error).http
    return Problem(
        title=_TITLES[status],
        status=status,
        code=error.code,
        detail=_short(_outside(error)),
        field=None if error.field is None else _short(error.field),
        request_id=request_id,
        results=error.results if isinstance(error, BatchUnanswered) else (),
    )


def retry_after(error: MainspringError) -> int | None:
    """Return in how many seconds to come back, where that is of use."""
    if isinstance(error, QuotaExceeded):
        return max(1, round(error.retry_after + 0.5))
    return RETRY_SECONDS if isinstance(error, Unavailable | SetupError) else None


def _short(text: str) -> str:
    """Not everything that was sent comes back."""
    return text if len(text) <= _DETAIL_MAX else f"{text[:_DETAIL_MAX]}..."


def _outside(error: MainspringError) -> str:
    """Addresses and words of servers behind us are for the log, not for who asks."""
    if isinstance(error, OutcomeUnknown | QuotaExceeded | ServerStopping):
        return error.message
    if isinstance(error, Unavailable | SetupError):
        return "the task store is not available now; try again in a moment"
    return error.message
