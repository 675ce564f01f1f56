"""A worker in a process of its own, which a test can stop, continue and kill.

Prints "ready" when it works, and its figures as JSON when it has drained.
"""

import argparse
import asyncio
import runpy
import signal
import sys

import msgspec
import structlog

from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.adapters.system import SystemChance, SystemClock, SystemIds
from mainspring.worker.agent import Agent
from mainspring.worker.options import WorkerOptions


async def main(dsn: str, app: str, lease_seconds: float) -> None:
    store = PostgresStore(PoolOptions(dsn=dsn))
    agent = Agent(
        store,
        SystemClock(),
        SystemChance(),
        registry=runpy.run_path(app)["registry"](),
        worker_id=SystemIds().worker_id(),
        options=WorkerOptions(lease_seconds=lease_seconds, heartbeat_seconds=lease_seconds / 3),
        runner_command=[sys.executable, app],
        log=structlog.wrap_logger(structlog.PrintLogger(sys.stderr)),
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    running = asyncio.create_task(agent.run())
    print("ready", flush=True)
    await stop.wait()
    await agent.drain(5)
    await running
    await store.close()
    print(msgspec.json.encode(agent.stats).decode(), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--app", required=True)
    parser.add_argument("--lease", type=float, default=60.0)
    given = parser.parse_args()
    asyncio.run(main(given.dsn, given.app, given.lease))
