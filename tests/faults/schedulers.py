"""Schedulers of one installation, for the fault tests.

`FAILOVER_TTL` sets how long their sessions last.
"""

import os
import sys

from faults.stage import Program, Stage
from fixtures.etcd import EtcdServer

TTL_SECONDS = float(os.environ.get("FAILOVER_TTL", "2"))
TAKEOVER_SECONDS = TTL_SECONDS + 4


class Schedulers:
    """Schedulers of one installation."""

    def __init__(self, stage: Stage, **settings: object) -> None:
        self.stage = stage
        self.settings = {"scheduler_ttl_seconds": TTL_SECONDS, **settings}

    async def start(self, **settings: object) -> Program:
        program = self.stage.start("scheduler", **{**self.settings, **settings})
        await program.says("scheduler is ready")
        return program

    def armed(self, point: str, nth: int, sign: str) -> Program:
        command = [sys.executable, "-m", "faults.armed_scheduler", point, str(nth), sign]
        return self.stage.start_program(command, "armed", **self.settings)


def with_etcd(*servers: EtcdServer, prefix: str = "mainspring") -> dict[str, object]:
    urls = ",".join(server.url for server in servers)
    return {"coordination": "etcd", "etcd_url": urls, "etcd_prefix": prefix}
