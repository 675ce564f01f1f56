"""Keeping the store small and quick, by the rules of `ports.store`."""

from typing import Protocol


class Housekeeping(Protocol):
    """What has to be done now and then so that the store stays small and quick."""

    async def prepare_history(self, months_ahead: int) -> list[str]:
        """Make the history partitions of this and the coming months; returns those made."""
        ...

    async def drop_history(self, keep_days: float) -> list[str]:
        """Drop whole the months in which nothing finished within the last `keep_days`, and
        delete older rows that are in no month; returns what was dropped.
        """
        ...

    async def forget_keys(self, keep_days: float, limit: int) -> int:
        """Forget idempotency keys that are older than that and whose task is not live."""
        ...
