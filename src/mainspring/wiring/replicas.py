"""What can be said of the read replica of a database."""

from mainspring.adapters.postgres.replica_lag import replica_lag
from mainspring.adapters.system import SystemClock
from mainspring.config import Settings
from mainspring.domain.errors import MainspringError
from mainspring.wiring.connecting import database_url


async def replica_findings(settings: Settings) -> list[tuple[bool, str]]:
    """Return whether the replica of one database can be used, and a sentence; nothing without."""
    if not settings.database_read_url:
        return []
    bound = settings.read_staleness_seconds
    try:
        lag = await replica_lag(
            database_url(settings), settings.database_read_url, SystemClock(), min(bound, 5.0)
        )
    except MainspringError as error:
        return [(False, f"not used, the primary answers in its place: {error.message}")]
    if not lag.is_replica:
        detail = "database_read_url leads to a server that is no replica of database_url"
        return [(False, f"{detail}, so it is not used")]
    if lag.seconds is None:
        detail = (
            f"{lag.bytes_behind:,} bytes behind and not catching up within {min(bound, 5.0):g} s"
        )
        return [(False, f"{detail}; lists and counts come from the primary while it is so")]
    return [
        (True, f"shows what is written after {lag.seconds:.2f} s; up to {bound:g} s are allowed")
    ]
