"""All duties of one scheduler process."""

import asyncio
from collections.abc import Sequence

from mainspring.core.service import Service


class SchedulerService:
    """`core.service.Service`: runs the duties side by side.

    When one of them ends with an error the others are cancelled and the error is raised: half a
    scheduler that looks alive is worse than one that is restarted.
    """

    name = "scheduler"

    def __init__(self, duties: Sequence[Service]) -> None:
        self._duties = tuple(duties)

    async def run(self) -> None:
        """Do all duties until cancelled."""
        async with asyncio.TaskGroup() as group:
            for duty in self._duties:
                group.create_task(duty.run(), name=duty.name)

    async def run_once(self) -> int:
        """Do one round of every duty now, one after the other."""
        return sum([await duty.run_once() for duty in self._duties])
