"""The fixed work that rates are compared with."""

from mainspring.adapters.postgres.yardstick import rows_per_second
from mainspring.config import Settings
from mainspring.wiring.connecting import direct_url


async def reference_rate(settings: Settings) -> float:
    """Do the fixed work on the configured database; raises when that cannot be done there."""
    return await rows_per_second(direct_url(settings))
