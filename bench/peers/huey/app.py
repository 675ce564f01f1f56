"""Huey on Redis: two threads, no results."""

import os
import time
from datetime import datetime
from typing import Any

import probe
from huey import RedisHuey

huey = RedisHuey("bench", url=os.environ["BENCH_REDIS"], results=False)


@huey.task()
def noop(payload: dict[str, Any]) -> None:
    del payload
    probe.hit()


@huey.task()
def mark(payload: dict[str, Any], number: int, due: float) -> None:
    del payload
    probe.late(number, due)


@huey.task()
def slow(number: int, seconds: float) -> None:
    probe.started(number)
    time.sleep(seconds)
    probe.ended(number)


class Client:
    def one(self) -> None:
        noop(probe.PAYLOAD)

    def schedule(self, items: list[tuple[int, float]]) -> None:
        for number, due in items:
            # Huey takes a local time without a zone.
            eta = datetime.fromtimestamp(due)  # noqa: DTZ006
            mark.schedule(args=(probe.PAYLOAD, number, due), eta=eta)

    def slow(self, numbers: list[int], seconds: float) -> None:
        for number in numbers:
            slow(number, seconds)
