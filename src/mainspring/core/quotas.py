"""What each namespace may use: tasks a second, and tasks at a time."""

from typing import Final

import msgspec

from mainspring.domain.errors import QuotaExceeded
from mainspring.domain.namespaces import namespace_of
from mainspring.ports.access import Access, Namespace
from mainspring.ports.clock import Clock
from mainspring.ports.store import TaskReader

FRESH_SECONDS: Final = 1.0
"""How long a count of pending tasks, and what the quotas are, is believed."""

_RETRY_SECONDS: Final = 5.0
_UNLIMITED: Final = Namespace(name="")


class _Use(msgspec.Struct):
    """What a namespace has used, as this process knows it."""

    tokens: float
    filled_at: float
    pending: int = 0
    counted_at: float = float("-inf")


class Quotas:
    """Takes tasks from the allowance of their namespace before they are stored.

    Pending tasks are counted in the store at most once a second and what was admitted since is
    added, so several API processes together may overshoot by what they admit in a second.
    """

    def __init__(self, access: Access, reader: TaskReader, clock: Clock) -> None:
        self._access = access
        self._reader = reader
        self._clock = clock
        self._limits: dict[str, Namespace] = {}
        self._read_at = float("-inf")
        self._uses: dict[str, _Use] = {}

    async def limits(self, namespace: str) -> Namespace:
        """Return the quotas of a namespace."""
        now = self._clock.monotonic()
        if now - self._read_at >= FRESH_SECONDS:
            self._read_at = now
            self._limits = {limit.name: limit for limit in await self._access.namespaces()}
        return self._limits.get(namespace, _UNLIMITED)

    def are_open(self, namespace: str) -> bool:
        """Whether a namespace may use what it likes; False also when that has to be looked up."""
        fresh = self._clock.monotonic() - self._read_at < FRESH_SECONDS
        return fresh and _is_open(self._limits.get(namespace, _UNLIMITED))

    async def take(self, namespace: str, count: int) -> None:
        """Take so many new tasks from the allowance, or raise `QuotaExceeded` and take none."""
        limit = await self.limits(namespace)
        if _is_open(limit):
            return
        now = self._clock.monotonic()
        use = self._uses.get(namespace)
        if use is None:
            use = self._uses[namespace] = _Use(limit.submit_rate or 0.0, now)
        if limit.pending_max is not None:
            await self._check_pending(namespace, use, count, limit.pending_max)
        if limit.submit_rate is not None:
            _take_tokens(use, count, limit.submit_rate, self._clock.monotonic())
        use.pending += count

    async def _check_pending(self, namespace: str, use: _Use, count: int, most: int) -> None:
        now = self._clock.monotonic()
        if now - use.counted_at >= FRESH_SECONDS:
            use.counted_at = now
            names = await self._reader.queue_names()
            ours = [name for name in names if namespace_of(name) == namespace]
            use.pending = await self._access.pending_count(ours, most + 1)
        if use.pending + count > most:
            raise QuotaExceeded(
                f"namespace {namespace!r} has {use.pending:,} pending tasks of the {most:,} it "
                "may have; wait until some have ended",
                retry_after=_RETRY_SECONDS,
            )


def _is_open(limit: Namespace) -> bool:
    return limit.submit_rate is None and limit.pending_max is None


def _take_tokens(use: _Use, count: int, rate: float, now: float) -> None:
    """A second's worth may be taken at once; a larger batch is paid for afterwards."""
    use.tokens = min(max(rate, 1.0), use.tokens + (now - use.filled_at) * rate)
    use.filled_at = now
    needed = min(float(count), max(rate, 1.0))
    if use.tokens < needed:
        wait = (needed - use.tokens) / rate
        raise QuotaExceeded(
            f"more than {rate:g} tasks a second were submitted; come back in {wait:.1f} s",
            retry_after=wait,
        )
    use.tokens -= count
