"""The audit of what is done through the API, on disk before the answer.

Tasks that are submitted take their records along in their own transaction (`Task.origin`). Every
other write waits for its record, which shares the commit with those that arrive at the same time.
What workers do is counted, and recorded every few seconds for each key: the tasks themselves say
who ran them, so nothing but the sum would be lost with the process.
"""

import asyncio
from collections import deque
from typing import Final

from mainspring.domain.errors import OutcomeUnknown, Unavailable
from mainspring.ports.access import Access, AuditRecord
from mainspring.ports.clock import Clock

GROUP_RECORDS: Final = 1000
WAITING_MAX: Final = 50_000
"""Beyond this, while the store does not answer, records are refused, and so is what they record."""

SUM_SECONDS: Final = 10.0
"""How often the sums of what workers do are recorded."""

SUMS_MAX: Final = 10_000
_RETRY_SECONDS: Final = 1.0
_REFUSED: Final = "it was done, but the audit could not be written; look before you repeat it"

Written = asyncio.Future[None]


class AuditTrail:
    """Appends records to the audit, in order, many in one commit."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._waiting: deque[tuple[AuditRecord, Written]] = deque()
        self._sums: dict[tuple[str, str, str], AuditRecord] = {}
        self._writer: asyncio.Task[None] | None = None
        self._summing: asyncio.Task[None] | None = None
        self.dropped = 0

    def add(self, record: AuditRecord) -> Written:
        """Take one record; whoever awaits what is returned has it on disk.

        What is returned raises `OutcomeUnknown` when too many records wait for a silent store.
        """
        written: Written = asyncio.get_running_loop().create_future()
        if len(self._waiting) >= WAITING_MAX:
            self.dropped += 1
            written.set_exception(OutcomeUnknown(_REFUSED))
            # Whoever does not wait for it does not want to know.
            written.exception()
            return written
        self._waiting.append((record, written))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write(), name="mainspring-audit")
        return written

    def count(self, record: AuditRecord) -> None:
        """Add a record to the sum of its actor and action, written within `SUM_SECONDS`."""
        if record.count <= 0:
            return
        at = (record.actor, record.namespace, record.action)
        self._sums[at] = _together(self._sums.get(at), record)
        if len(self._sums) >= SUMS_MAX:
            self._write_sums()
        if self._summing is None or self._summing.done():
            self._summing = asyncio.create_task(self._sum(), name="mainspring-audit-sums")

    async def close(self) -> None:
        """Write what is waiting, unless the store cannot be reached."""
        self._write_sums()
        for task in (self._summing, self._writer):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        while self._waiting and await self._write_group():
            pass

    async def _sum(self) -> None:
        while self._sums:
            await self._clock.sleep(SUM_SECONDS)
            self._write_sums()

    def _write_sums(self) -> None:
        sums, self._sums = self._sums, {}
        for record in sums.values():
            self.add(record)

    async def _write(self) -> None:
        while self._waiting:
            if not await self._write_group():
                await self._clock.sleep(_RETRY_SECONDS)

    async def _write_group(self) -> bool:
        size = min(GROUP_RECORDS, len(self._waiting))
        group = [self._waiting[at] for at in range(size)]
        try:
            await self._access.record([record for record, _ in group])
        except Unavailable:
            return False
        except Exception:
            for _, written in group:
                self._waiting.popleft()
                if not written.done():
                    written.set_exception(OutcomeUnknown(_REFUSED))
                    written.exception()
            raise
        for _, written in group:
            self._waiting.popleft()
            if not written.done():
                written.set_result(None)
        return True


def _together(sum_: AuditRecord | None, record: AuditRecord) -> AuditRecord:
    """The sum of records: the subjects are those of the first and the last one."""
    if sum_ is None:
        return record
    first = sum_.subject.partition(" ")[0]
    last = record.subject.rpartition(" ")[2]
    return AuditRecord(
        actor=record.actor,
        namespace=record.namespace,
        action=record.action,
        subject=first if first == last else f"{first} {last}",
        address=record.address,
        request_id=record.request_id,
        count=sum_.count + record.count,
    )
