"""A request as handlers see it, and what they answer."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from mainspring.core.access import Principal
from mainspring.domain.task import Origin

Scope = dict[str, Any]

CERTIFICATE: Final = "mainspring.certificate"
"""The extension of the scope with the `names` in the certificate that the client has shown."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request that has passed every check of its head."""

    who: Principal
    path: Mapping[str, str]
    query: Any
    """The query's struct, if the route has one."""

    body: Any
    """The body's struct or None. Where the route reads bytes itself: these, or what they stand for
    if it came as something else than JSON."""

    content_type: str
    headers: Mapping[bytes, bytes]
    request_id: str
    fields: Mapping[str, Any] = {}
    """What gRPC has in a field and REST in a header."""

    address: str = ""
    """Where it comes from."""

    action: str = ""
    """What the audit calls it."""

    left: Callable[[], Awaitable[None]] | None = None
    """Returns when who asks has gone away; None where that ends the work by itself."""

    spent_seconds: float = 0.0
    """How long it took to find out who asks; it counts for the time of the answer."""

    @property
    def origin(self) -> Origin:
        """What the audit says of tasks that are submitted with it."""
        return Origin(
            actor=self.who.key_id,
            namespace=self.who.namespace,
            action=self.action,
            address=self.address,
            request_id=self.request_id,
        )


class Response(msgspec.Struct, kw_only=True):
    """What is answered. `value` becomes JSON; `data` is sent as it is; `stream` piece by piece."""

    status: int = 200
    value: Any = None
    data: bytes | None = None
    stream: AsyncGenerator[bytes, None] | None = None
    content_type: str = "application/json"
    headers: list[tuple[bytes, bytes]] = []
    audit_subject: str = ""
    audit_count: int = 1


_ENCODER: Final = msgspec.json.Encoder()


def encoded(response: Response) -> bytes:
    """Return the bytes of an answer that is not streamed."""
    return _ENCODER.encode(response.value) + b"\n" if response.data is None else response.data
