"""The pools of one store."""

from mainspring.adapters.postgres.pool import Pool, PoolOptions
from mainspring.adapters.postgres.replica import Replica


class Connections:
    """The pools of one store. Leases have connections of their own, so that whoever uses up the
    others cannot rob a worker of its tasks.
    """

    def __init__(self, options: PoolOptions) -> None:
        self.options = options
        self.main = Pool(options, options.size)
        self.leases = Pool(options, options.lease_size)
        self.reads = Replica(options, self.main)

    async def close(self) -> None:
        """Close all connections."""
        await self.main.close()
        await self.leases.close()
        await self.reads.close()
