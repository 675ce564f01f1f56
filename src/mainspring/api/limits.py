"""What a request may be, checked before anything in it is understood."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from mainspring.api.errors import (
    HeadersTooLarge,
    MalformedRequest,
    RequestTimeout,
    UnsupportedMediaType,
)
from mainspring.core.json_text import decode_exact
from mainspring.core.patience import within
from mainspring.domain.errors import InvalidValue, PayloadTooLarge

BODY_BYTES_MAX: Final = 1024 * 1024
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
UNREAD_BYTES_MAX: Final = 64 * 1024 * 1024
"""A body beyond this is not read to its end; the connection is closed on it."""

HEADER_BYTES_MAX: Final = 16 * 1024
PATH_BYTES_MAX: Final = 4 * 1024
BODY_SECONDS: Final = 10.0
"""How long a client may take to send its body."""

JSON_TYPE: Final = "application/json"
NDJSON_TYPE: Final = "application/x-ndjson"

_FREE: Final = frozenset({"payload", "result"})

Receive = Callable[[], Awaitable[Any]]


class Headers:
    """The headers of a request, whose names are in small letters."""

    __slots__ = ("_pairs", "by_name")

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self._pairs = pairs
        self.by_name: Mapping[bytes, bytes] = dict(pairs)
        """The last one of each name."""

    @property
    def size(self) -> int:
        """How many bytes they have."""
        return sum(map(len, chain.from_iterable(self._pairs)))

    def all(self, name: bytes) -> list[bytes]:
        """Return every value that was given for a name."""
        if name not in self.by_name:
            return []
        return [value for given, value in self._pairs if given == name]

    def one(self, name: bytes) -> str | None:
        """Return the value of a header that may be given once, or None."""
        found = self.all(name)
        if len(found) > 1:
            message = f"the header {name.decode()} is given {len(found)} times; give it once"
            raise MalformedRequest(message)
        return found[0].decode("latin-1") if found else None


def check_head(headers: Headers, raw_path: bytes, query: bytes) -> None:
    """Refuse a request whose first part is larger than any of ours would be."""
    if headers.size > HEADER_BYTES_MAX:
        message = f"the headers have more than {HEADER_BYTES_MAX:,} bytes; send less"
        raise HeadersTooLarge(message)
    if len(raw_path) + len(query) > PATH_BYTES_MAX:
        message = f"the path and query have more than {PATH_BYTES_MAX:,} bytes; send less"
        raise HeadersTooLarge(message)


async def read_body(headers: Headers, receive: Receive, bytes_max: int) -> bytes:
    """Return the body, at most so many bytes of it, or raise what is wrong with it."""
    encoding = headers.one(b"content-encoding")
    if encoding not in {None, "identity"}:
        message = "the body is compressed; send it as it is"
        raise UnsupportedMediaType(message)
    length = headers.one(b"content-length")
    announced = int(length[:18]) if length is not None and length.isdecimal() else 0
    if announced > UNREAD_BYTES_MAX:
        raise _too_large(bytes_max)
    try:
        body, size = await within(BODY_SECONDS, _received(receive, bytes_max))
    except TimeoutError:
        text = f"the body did not arrive within {BODY_SECONDS:g} s; send it faster"
        raise RequestTimeout(text) from None
    if size > bytes_max:
        raise _too_large(bytes_max)
    return body


async def _received(receive: Receive, bytes_max: int) -> tuple[bytes, int]:
    """Return the body and its size. What is over the limit is read, within reason, and dropped: a
    client only sees an answer once it could send everything.
    """
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise MalformedRequest("the body ended too soon")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size <= bytes_max:
            chunks.append(chunk)
        else:
            chunks.clear()
        if not message.get("more_body", False) or size > UNREAD_BYTES_MAX:
            return chunks[0] if len(chunks) == 1 else b"".join(chunks), size


def check_type(headers: Headers, allowed: tuple[str, ...]) -> str:
    """Return the type of the body if it is an allowed one."""
    given = headers.one(b"content-type") or ""
    kind, _, parameters = given.partition(";")
    kind = kind.strip().lower()
    charset = parameters.strip().lower().replace('"', "")
    if kind in allowed and charset in {"", "charset=utf-8", "charset=utf8"}:
        return kind
    message = f"the Content-Type has to be {' or '.join(allowed)}, in UTF-8"
    raise UnsupportedMediaType(message)


def decode_body(body: bytes, bytes_max: int = BODY_BYTES_MAX, what: str = "body") -> Any:
    """Return the value that a JSON body stands for, or raise the problem with its text."""
    return with_whole_numbers(decode_free(body, bytes_max, what))


def decode_free(body: bytes, bytes_max: int = BODY_BYTES_MAX, what: str = "body") -> Any:
    """Return the same for JSON that belongs to the user: 5.0 stays 5.0."""
    if not body:
        raise MalformedRequest(f"the {what} is empty; send a JSON object")
    try:
        return decode_exact(body, what, bytes_max)
    except PayloadTooLarge:
        raise
    except InvalidValue as error:
        problem = MalformedRequest(error.message)
        problem.field = error.field
        raise problem from None


def with_whole_numbers(value: Any) -> Any:
    """Return a body in which 5.0 is 5: JSON has one kind of number. What belongs to the user, its
    payloads and results, stays as it is.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        for name, part in value.items():
            if isinstance(part, float | dict | list) and name not in _FREE:
                value[name] = with_whole_numbers(part)
    elif isinstance(value, list):
        return [with_whole_numbers(part) for part in value]
    return value


def _too_large(bytes_max: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body has more than {bytes_max:,} bytes; send less at once")
