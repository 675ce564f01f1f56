"""Calls to Redis that end within a bounded time, and none while it is known to be away."""

import asyncio
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from types import TracebackType
from typing import Any, Final, NamedTuple

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


def script_of(name: str) -> Script:
    """Read a script, with what begins all of them."""
    folder = files("mainspring.adapters.redis") / "lua"
    source = "\n".join(
        (folder / f"{part}.lua").read_text(encoding="utf-8") for part in ("prelude", name)
    )
    # The name that the protocol wants, which protects nothing.
    digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    return Script(source, digest)


class ServerFacts(NamedTuple):
    """What a server says of itself."""

    name: str
    version: str
    policy: str
    """What it does when its memory is full."""


class RedisLink:
    """The connections of one event loop.

    The driver's own repetitions are off: a script whose answer was lost may have done its work.
    After an error nothing is asked for a while, so that callers do not wait for the next one.
    """

    def __init__(self, options: RedisOptions, clock: Clock) -> None:
        tls = {"ssl_ca_certs": options.ca_file} if options.ca_file else {}
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
        self._clock = clock
        self._failures = 0
        self._away_until = 0.0
        self._reason = ""

    async def run(self, script: Script, prefix: str, *arguments: Any) -> Any:
        """Run a script on a slice."""
        async with _Bounded(self):
            try:
                return await self._redis.evalsha(script.digest, 1, prefix, *arguments)
            except NoScriptError:
                # A server that was started anew, or whose scripts were flushed.
                return await self._redis.eval(script.source, 1, prefix, *arguments)

    async def ask(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands together and return their answers."""
        async with _Bounded(self):
            pipeline = self._redis.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            return await pipeline.execute()

    async def server(self) -> ServerFacts:
        """Return what the server says of itself."""
        (info,) = await self.ask([("INFO",)])
        valkey = info.get("valkey_version")
        return ServerFacts(
            name="Valkey" if valkey else "Redis",
            version=str(valkey or info.get("redis_version", "0")),
            policy=str(info.get("maxmemory_policy", "noeviction")),
        )

    async def close(self) -> None:
        """Close the connections. Safe to call twice."""
        await self._redis.aclose()
        await self._pool.aclose()

    def check(self) -> None:
        """Raise `ReadyQueueUnavailable` while the server is known to be away."""
        if self._clock.monotonic() < self._away_until:
            raise ReadyQueueUnavailable(f"the ready queue in Redis is away: {self._reason}")

    def succeed(self) -> None:
        """Take note that a call was answered."""
        self._failures = 0

    def fail(self, error: Exception) -> ReadyQueueUnavailable:
        """Take note of what a call ended with, and return what its caller is told."""
        first, longest = _AWAY_SECONDS
        pause = min(first * 2.0 ** min(self._failures, 10), longest)
        self._failures += 1
        self._away_until = self._clock.monotonic() + pause
        self._reason = hide_secrets(str(error)) or "there was no answer in time"
        return ReadyQueueUnavailable(f"the ready queue in Redis cannot be used: {self._reason}")


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
        if error is None:
            self._link.succeed()
        elif isinstance(error, RedisError | OSError):
            raise self._link.fail(error) from error
