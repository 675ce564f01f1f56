"""Taking places of queues back that tasks took along when they moved while they ran.

Places are lent for as long as the other shard has more in use than its own share. It admits nothing
while that is so; so what it says is never too little later on, and what a shard lends and what the
others have in use is never more than the limit as a whole.
"""

from collections.abc import Sequence
from contextlib import suppress

import asyncpg

from mainspring.adapters.postgres.moving.end import End
from mainspring.adapters.postgres.moving.statements import STATEMENTS
from mainspring.domain.errors import StoreUnavailable


async def take_places_back(dsns: Sequence[str], lender: int) -> int:
    """Take back what is not in use any more of the places that a shard lends; return how many. What
    is in shards that do not answer stays lent.
    """
    source, count = End(lender, dsns[lender]), 0
    with suppress(StoreUnavailable):
        try:
            await source.open()
            rows = await _fetched(source, "lent_places")
            for shard in {row["shard"] for row in rows if row["shard"] < len(dsns)}:
                with suppress(StoreUnavailable):
                    lent = [row for row in rows if row["shard"] == shard]
                    count += await _taken_back(source, dsns[shard], lent)
        finally:
            await source.close()
    return count


async def _taken_back(source: End, dsn: str, lent: Sequence[asyncpg.Record]) -> int:
    borrower = End(lent[0]["shard"], dsn)
    try:
        await borrower.open()
        rows = await _fetched(borrower, "places_over", [row["queue"] for row in lent])
    finally:
        await borrower.close()
    over = {row["queue"]: row["count"] for row in rows}
    count = 0
    for row in lent:
        # Without a limit there is nothing to lend.
        left = min(row["count"], over.get(row["queue"], 0))
        if left < row["count"]:
            place = (row["queue"], row["shard"], row["changed_at"])
            await _fetched(source, "take_places_back", *place, left)
            count += row["count"] - left
    return count


async def _fetched(end: End, name: str, *arguments: object) -> list[asyncpg.Record]:
    statement = STATEMENTS[name]
    with end.translating(wrote=statement.writes):
        return list(await end.connection.fetch(statement.sql, *arguments))
