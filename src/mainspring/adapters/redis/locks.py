"""`ports.locks.Locks` in Redis, each one key and each change one script.

A server that takes over from another may not know the last grants, so these locks hold as long as
Redis remembers.
"""

from typing import Any, Final

from mainspring.adapters.redis.link import Link, Script, script_of
from mainspring.ports.locks import Grant, LocksUnavailable, Refusal
from mainspring.ports.ready_queue import ReadyQueueUnavailable

ACQUIRE: Final = script_of("lock", "acquire", is_alone=True)
EXTEND: Final = script_of("lock", "extend", is_alone=True)
RELEASE: Final = script_of("lock", "release", is_alone=True)

_PER_SECOND: Final = 1_000_000


class RedisLocks:
    """Locks for those who use the same Redis and prefix."""

    def __init__(self, link: Link, prefix: str) -> None:
        self._link = link
        self._prefix = prefix

    async def acquire(self, name: str, owner: str, seconds: float) -> Grant | Refusal:
        """Give the lock for so many seconds if nobody has it."""
        is_ours, value = await self._run(ACQUIRE, name, owner, round(seconds * _PER_SECOND))
        return Grant(int(value)) if is_ours else Refusal(int(value) / _PER_SECOND)

    async def extend(self, name: str, owner: str, seconds: float) -> bool:
        """Let the lock last for so many seconds from now, if it is the owner's."""
        return bool(await self._run(EXTEND, name, owner, round(seconds * _PER_SECOND)))

    async def release(self, name: str, owner: str) -> bool:
        """End the lock, if it is the owner's."""
        return bool(await self._run(RELEASE, name, owner))

    async def close(self) -> None:
        """Release connections. Safe to call twice."""
        await self._link.close()

    async def _run(self, script: Script, name: str, *arguments: Any) -> Any:
        key = f"{self._prefix}:lock:{name}"
        try:
            return await self._link.run(script, key, *arguments)
        except ReadyQueueUnavailable as error:
            raise LocksUnavailable(f"locks cannot be used: {error.message}") from error
