"""APScheduler 3 on PostgreSQL: a pool of ten threads. It is one process by design: another one
cannot wake the scheduler, so what the client submits is found when the scheduler looks again.
"""

import os
import sys
from datetime import UTC, datetime
from typing import Any, TypeVar

import probe
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.blocking import BlockingScheduler

URL = os.environ["BENCH_PG"].replace("postgresql://", "postgresql+psycopg://")
S = TypeVar("S")


def scheduler(kind: type[S]) -> S:
    options: dict[str, Any] = {
        "jobstores": {"default": SQLAlchemyJobStore(url=URL)},
        "executors": {"default": ThreadPoolExecutor(10)},
        "job_defaults": {
            "coalesce": False,
            "max_instances": 100_000,
            "misfire_grace_time": None,
        },
        "timezone": "UTC",
    }
    return kind(**options)


class Client:
    def open(self) -> None:
        self.scheduler = scheduler(BackgroundScheduler)
        self.scheduler.start(paused=True)

    def set_up(self) -> None:
        self.open()
        self.close()

    def close(self) -> None:
        self.scheduler.shutdown(wait=False)

    def one(self) -> None:
        self.scheduler.add_job("jobs:noop", "date", args=(probe.PAYLOAD,))

    def schedule(self, items: list[tuple[int, float]]) -> None:
        for number, due in items:
            at = datetime.fromtimestamp(due, UTC)
            arguments = (probe.PAYLOAD, number, due)
            self.scheduler.add_job("jobs:mark", "date", run_date=at, args=arguments)

    def slow(self, numbers: list[int], seconds: float) -> None:
        for number in numbers:
            self.scheduler.add_job("jobs:slow", "date", args=(number, seconds))


if __name__ == "__main__" and sys.argv[1:] == ["worker"]:
    scheduler(BlockingScheduler).start()
