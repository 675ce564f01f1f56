"""How far a read replica is behind, looked at once."""

import asyncio
from typing import Final

import msgspec

from mainspring.adapters.postgres.failures import DRIVER_ERRORS, server_of, translated
from mainspring.adapters.postgres.pool import connect
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.ports.clock import Clock

_WRITTEN: Final = QUERIES["written_upto"].sql
_REPLAYED: Final = QUERIES["replayed_upto"].sql
_LOOK_SECONDS: Final = 0.02


class Lag(msgspec.Struct, frozen=True):
    """What was seen of a replica."""

    is_replica: bool
    """It replays the log of this very primary."""

    bytes_behind: int
    seconds: float | None
    """How long it took to show what the primary had written; None: longer than was waited."""


async def replica_lag(primary: str, replica: str, clock: Clock, patience_seconds: float) -> Lag:
    """Look how long a replica takes to show what is written; raises `StoreUnavailable`."""
    first = await connect(primary)
    try:
        second = await connect(replica)
        try:
            began = clock.monotonic()
            async with asyncio.timeout(patience_seconds + 5):
                (written,) = await first.fetch(_WRITTEN)
                while True:
                    (replayed,) = await second.fetch(_REPLAYED)
                    behind = max(0, written["place"] - replayed["place"])
                    is_replica = (
                        bool(replayed["is_replica"]) and replayed["system"] == written["system"]
                    )
                    spent = clock.monotonic() - began
                    if not is_replica or not behind:
                        return Lag(is_replica, behind, spent)
                    if spent >= patience_seconds:
                        return Lag(is_replica, behind, None)
                    await clock.sleep(_LOOK_SECONDS)
        finally:
            await second.close()
    except DRIVER_ERRORS as error:
        raise translated(error, wrote=False, server=server_of(replica)) from error
    finally:
        await first.close()
