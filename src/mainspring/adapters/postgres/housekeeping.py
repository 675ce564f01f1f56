"""What keeps the store small."""

from typing import Final

from mainspring.adapters.postgres.part import StorePart
from mainspring.adapters.postgres.queries import QUERIES

_PREPARE: Final = QUERIES["prepare_history"]
_DROP: Final = QUERIES["drop_history"]
_STRAYS: Final = QUERIES["drop_strays"]
_FORGET: Final = QUERIES["forget_keys"]
_DAY_SECONDS: Final = 86400.0
_STRAYS_AT_ONCE: Final = 5000


class Housekeeping(StorePart):
    """`ports.housekeeping.Housekeeping`."""

    async def prepare_history(self, months_ahead: int) -> list[str]:
        """Make the history partitions of this and the coming months."""
        rows = await self._main.fetch(_PREPARE, months_ahead, self._now())
        return [row["made"] for row in rows]

    async def drop_history(self, keep_days: float) -> list[str]:
        """Drop the months in which nothing finished lately, and old rows that are in no month."""
        keep_seconds = keep_days * _DAY_SECONDS
        rows = await self._main.fetch(_DROP, self._now(), keep_seconds)
        while await self._main.fetch(_STRAYS, self._now(), keep_seconds, _STRAYS_AT_ONCE):
            pass
        return [row["dropped"] for row in rows]

    async def forget_keys(self, keep_days: float, limit: int) -> int:
        """Forget old idempotency keys whose task is not live."""
        return len(await self._main.fetch(_FORGET, self._now(), keep_days * _DAY_SECONDS, limit))
