"""What every call goes through, in this order: the size of its head, who asks, scope, the rest.

Whatever goes wrong becomes a status with a stable code; what nobody foresaw is logged and counted.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote

import grpc
import structlog

from mainspring.api.application import Application
from mainspring.api.doorkeeper import Doorkeeper
from mainspring.api.errors import RequestTimeout, ServerStopping, codes_of, problem_of, retry_after
from mainspring.api.limits import Headers, check_head
from mainspring.api.performing import in_time
from mainspring.api.routes import PATIENCE_SECONDS, Route
from mainspring.api.tls import NAMES_MAX
from mainspring.core.access import Principal
from mainspring.domain.errors import MainspringError, Unauthenticated
from mainspring.ports.clock import Clock, IdSource

T = TypeVar("T")

# The types of grpc.aio are those of its stubs, which know no server context without messages.
Context = Any

Work = Callable[[str], Awaitable[T]]
"""Does what a call is for, given the name of the call in the log."""

_NAMES: Final = ("peer_dns", "peer_uri")


class Caller(NamedTuple):
    """Who calls, from where, and what the call is named in the log."""

    who: Principal
    address: str
    request_id: str
    spent_seconds: float
    """How long it took to find out who calls; it counts for the time of the answer."""


class Gate:
    """Lets calls in, and answers for those that fail."""

    def __init__(
        self,
        doorkeeper: Doorkeeper,
        ids: IdSource,
        clock: Clock,
        application: Application,
    ) -> None:
        self._doorkeeper = doorkeeper
        self._ids = ids
        self._clock = clock
        self._application = application
        self._log = structlog.get_logger("mainspring.api")
        self._writes: set[asyncio.Future[Any]] = set()
        self.is_stopping = False

    async def admit(self, context: Context, route: Route, request_id: str) -> Caller:
        """Return who calls, if they may use the route."""
        metadata = context.invocation_metadata()
        headers = Headers(
            [
                (name.encode(), value if isinstance(value, bytes) else value.encode())
                for name, value in metadata
            ]
        )
        check_head(headers, b"", b"")
        began = self._clock.monotonic()
        who = await in_time(
            self._doorkeeper.admit(headers, route, _certificate(context)), PATIENCE_SECONDS
        )
        spent = self._clock.monotonic() - began
        return Caller(who, _address(context.peer()), request_id, spent)

    async def answer(self, context: Context, name: str, work: Work[T]) -> T:
        """Return what a call is answered, or end it with the status of its error."""
        request_id = self._ids.task_id().hex
        try:
            result = await work(request_id)
        except MainspringError as caught:
            error = caught
        except ConnectionError:
            error = RequestTimeout("the stream was not read any more, so it is closed")
        except Exception:  # noqa: BLE001 - whoever asks gets an answer, and the log the rest
            self._application.unforeseen += 1
            self._log.exception("call failed", request_id=request_id, method=name)
            error = MainspringError(f"something went wrong; the log has it under {request_id}")
        else:
            self._count(name, grpc.StatusCode.OK)
            return result
        code, details, metadata = status_of(error, request_id)
        self._count(name, code)
        await context.abort(code, details, metadata)
        raise AssertionError(details)

    def reason_to_end(self) -> MainspringError:
        """Return why a stream may not go on."""
        if self.is_stopping:
            return ServerStopping("the server is going to stop; connect again and go on")
        return Unauthenticated("the key is not valid any more; give another one")

    async def finish(self, work: Awaitable[T]) -> T:
        """Finish a write, and its record, also when the caller goes away meanwhile."""
        writing = asyncio.ensure_future(work)
        self._writes.add(writing)
        writing.add_done_callback(self._finished)
        return await asyncio.shield(writing)

    async def close(self) -> None:
        """Wait for writes whose callers went away; each has its own bound."""
        if self._writes:
            await asyncio.wait(self._writes)

    def _finished(self, writing: asyncio.Future[Any]) -> None:
        self._writes.discard(writing)
        if not writing.cancelled():
            # Looked at, so that nobody complains where the caller is gone.
            writing.exception()

    def _count(self, name: str, code: grpc.StatusCode) -> None:
        counted = (name, code.value[0])
        answers = self._application.answers
        answers[counted] = answers.get(counted, 0) + 1


def status_of(
    error: MainspringError, request_id: str
) -> tuple[grpc.StatusCode, str, tuple[tuple[str, str], ...]]:
    """Return an error as gRPC has it: a code, a sentence, and the rest in the trailing metadata."""
    problem = problem_of(error)
    metadata = [("mainspring-code", problem.code), ("mainspring-request-id", request_id)]
    if problem.field:
        metadata.append(("mainspring-field", _plain(problem.field)))
    wait = retry_after(error)
    if wait is not None:
        metadata.append(("retry-after", str(wait)))
    return grpc.StatusCode[codes_of(error).grpc], problem.detail, tuple(metadata)


def _plain(text: str) -> str:
    """Metadata is printable ASCII."""
    escaped = text.encode("ascii", "backslashreplace").decode()
    return "".join(letter if letter.isprintable() else "?" for letter in escaped)


def _address(peer: str) -> str:
    """`ipv4:127.0.0.1:5000` is 127.0.0.1, and `ipv6:%5B::1%5D:5000` is ::1."""
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in {"ipv4", "ipv6"} else ""


def _certificate(context: Context) -> tuple[str, ...]:
    """Return the hosts and URIs in the client's certificate, if it has shown one."""
    shown = context.auth_context()
    names = (name.decode() for kind in _NAMES for name in shown.get(kind, ()))
    return tuple(names)[:NAMES_MAX]
