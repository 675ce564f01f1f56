"""The audit of what is written through the API, stored in groups so that it costs little."""

import asyncio
from collections import deque
from typing import Final

from mainspring.domain.errors import Unavailable
from mainspring.ports.access import Access, AuditRecord
from mainspring.ports.clock import Clock

GROUP_SECONDS: Final = 0.1
GROUP_RECORDS: Final = 1000
WAITING_MAX: Final = 50_000
"""Beyond this, while the store does not answer, the newest records are dropped and counted."""

_RETRY_SECONDS: Final = 1.0


class AuditTrail:
    """Collects records and appends them to the audit, in order, within `GROUP_SECONDS`."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._waiting: deque[AuditRecord] = deque()
        self._writer: asyncio.Task[None] | None = None
        self.dropped = 0

    def add(self, record: AuditRecord) -> None:
        """Take one record; it is written soon, in the background."""
        if len(self._waiting) >= WAITING_MAX:
            self.dropped += 1
            return
        self._waiting.append(record)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write(), name="mainspring-audit")

    async def close(self) -> None:
        """Write what is waiting, unless the store cannot be reached."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait([self._writer])
        while self._waiting and await self._write_group():
            pass

    async def _write(self) -> None:
        while self._waiting:
            await self._clock.sleep(GROUP_SECONDS)
            if not await self._write_group():
                await self._clock.sleep(_RETRY_SECONDS)

    async def _write_group(self) -> bool:
        size = min(GROUP_RECORDS, len(self._waiting))
        group = [self._waiting[at] for at in range(size)]
        try:
            await self._access.record(group)
        except Unavailable:
            return False
        for _ in group:
            self._waiting.popleft()
        return True
