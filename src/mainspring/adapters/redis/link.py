"""Calls to Redis that end within a bounded time, and none while it is known to be away."""

import asyncio
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from mainspring.domain.values import hide_secrets
from mainspring.ports.clock import Clock
from mainspring.ports.ready_queue import ReadyQueueUnavailable

CALL_SECONDS: Final = 0.5
"""Longest that the server may take to answer: it works in memory, so a slow one is away."""

_DEADLINE_SECONDS: Final = 1.0
_AWAY_SECONDS: Final = (0.25, 4.0)
_CONNECTIONS: Final = 16
_CHECK_SECONDS: Final = 15


class RedisOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where Redis is."""

    url: str
    """``redis://``, ``rediss://`` or ``unix://``."""

    ca_file: str | None = None
    """PEM file with the authorities that are believed; None: those of the system."""


class Script(NamedTuple):
    """A script and the name under which the server keeps it."""

    source: str
    digest: str
    is_alone: bool = False
    """Whether the key that is named is the only one, so that the script also works while a cluster
    moves keys from one node to another."""


def script_of(*names: str, is_alone: bool = False) -> Script:
    """Read a script from files that follow each other."""
    folder = files("mainspring.adapters.redis") / "lua"
    source = "\n".join((folder / f"{name}.lua").read_text(encoding="utf-8") for name in names)
    # The name that the protocol wants, which protects nothing.
    digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    return Script(source, digest, is_alone)


class ServerFacts(NamedTuple):
    """What a server says of itself."""

    name: str
    version: str
    policy: str
    """What it does when its memory is full."""

    logs: bool
    """Whether it writes every change to a file."""


class Link(Protocol):
    """The way to Redis. Everything that is asked names a key, which says where it belongs.

    Raises `ReadyQueueUnavailable` within about a second.
    """

    async def run(self, script: Script, key: str, *arguments: Any) -> Any:
        """Run a script on the keys that have the tag of this one."""
        ...

    async def ask(self, key: str, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands about such keys together and return their answers."""
        ...

    async def servers(self) -> list["ServerFacts"]:
        """Return what each server that keeps something says of itself."""
        ...

    async def close(self) -> None:
        """Close the connections. Safe to call twice."""
        ...


class Absence:
    """Remembers that something was away, and after which pause it is worth another try."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0

    @property
    def lasts(self) -> bool:
        """Whether the pause is not over yet."""
        return self._clock.monotonic() < self._until

    def begin(self) -> None:
        """Take note of a failure; one that follows soon after a pause makes the next pause longer.
        Calls that were made before a pause and fail in it are no news.
        """
        now = self._clock.monotonic()
        if now < self._until:
            return
        first, longest = _AWAY_SECONDS
        if now > self._until + longest:
            self._failures = 0
        self._until = now + min(first * 2.0 ** min(self._failures, 10), longest)
        self._failures += 1

    def end(self) -> None:
        """Take note that it answered."""
        self._failures = 0


class RedisLink:
    """The connections of one event loop to one server.

    The driver's own repetitions are off: a script whose answer was lost may have done its work.
    After an error nothing is asked for a while, so that callers do not wait for the next one.
    Errors among `redirects` say that another server is meant; they are raised as they are.
    """

    def __init__(
        self,
        options: RedisOptions,
        clock: Clock,
        redirects: tuple[type[Exception], ...] = (),
    ) -> None:
        is_secure = urlsplit(options.url).scheme == "rediss"
        tls = {"ssl_ca_certs": options.ca_file} if is_secure and options.ca_file else {}
        self._pool = BlockingConnectionPool.from_url(
            options.url,
            max_connections=_CONNECTIONS,
            timeout=_DEADLINE_SECONDS,
            socket_timeout=CALL_SECONDS,
            socket_connect_timeout=CALL_SECONDS,
            retry=Retry(NoBackoff(), 0),
            retry_on_error=[],
            health_check_interval=_CHECK_SECONDS,
            protocol=2,
            **tls,
        )
        self._redis = Redis(connection_pool=self._pool)
        self.host = urlsplit(options.url).hostname or ""
        self._absence = Absence(clock)
        self._redirects = redirects
        self._reason = ""

    @property
    def is_away(self) -> bool:
        """Whether it failed a moment ago, so that nothing is asked."""
        return self._absence.lasts

    async def run(self, script: Script, key: str, *arguments: Any) -> Any:
        """Run a script; which keys it touches follows from the one that is named."""
        async with _Bounded(self):
            try:
                return await self._redis.evalsha(script.digest, 1, key, *arguments)
            except NoScriptError:
                # A server that was started anew, or whose scripts were flushed.
                return await self._redis.eval(script.source, 1, key, *arguments)

    async def ask(self, key: str, commands: Sequence[tuple[Any, ...]]) -> list[Any]:  # noqa: ARG002 - it is all on one server
        """Send commands together and return their answers."""
        return await self.tell(commands)

    async def tell(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands to this very server, together, and return their answers."""
        async with _Bounded(self):
            pipeline = self._redis.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            return await pipeline.execute()

    async def servers(self) -> list[ServerFacts]:
        """Return what the server says of itself."""
        (info,) = await self.tell([("INFO",)])
        valkey = info.get("valkey_version")
        facts = ServerFacts(
            name="Valkey" if valkey else "Redis",
            version=str(valkey or info.get("redis_version", "0")),
            policy=str(info.get("maxmemory_policy", "noeviction")),
            logs=str(info.get("aof_enabled", "0")) == "1",
        )
        return [facts]

    async def close(self) -> None:
        """Close the connections. Safe to call twice."""
        await self._redis.aclose()
        await self._pool.aclose()

    def check(self) -> None:
        """Raise `ReadyQueueUnavailable` while the server is known to be away."""
        if self.is_away:
            raise ReadyQueueUnavailable(f"Redis is away: {self._reason}")

    def end(self, error: BaseException | None) -> None:
        """Take note of what a call ended with, and raise what its caller is told."""
        if error is None or isinstance(error, self._redirects):
            self._absence.end()
        elif isinstance(error, RedisError | OSError):
            self._absence.begin()
            self._reason = hide_secrets(str(error)) or "there was no answer in time"
            raise ReadyQueueUnavailable(f"Redis cannot be used: {self._reason}") from error


class _Bounded:
    """A call that ends in time, with one kind of error."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._timeout = asyncio.timeout(_DEADLINE_SECONDS)

    async def __aenter__(self) -> None:
        self._link.check()
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as late:
            error = late
        self._link.end(error)
