"""Dramatiq on Redis: 16 threads in each process."""

import os
import time
from typing import Any

import dramatiq
import probe
from dramatiq.brokers.redis import RedisBroker

broker = RedisBroker(url=os.environ["BENCH_REDIS"])
dramatiq.set_broker(broker)


@dramatiq.actor
def noop(payload: dict[str, Any]) -> None:
    del payload
    probe.hit()


@dramatiq.actor
def mark(payload: dict[str, Any], number: int, due: float) -> None:
    del payload
    probe.late(number, due)


@dramatiq.actor
def slow(number: int, seconds: float) -> None:
    probe.started(number)
    time.sleep(seconds)
    probe.ended(number)


class Client:
    def open(self) -> None:
        broker.client.ping()

    def one(self) -> None:
        noop.send(probe.PAYLOAD)

    def schedule(self, items: list[tuple[int, float]]) -> None:
        for number, due in items:
            delay = max(0, int((due - time.time()) * 1000))
            mark.send_with_options(args=(probe.PAYLOAD, number, due), delay=delay)

    def slow(self, numbers: list[int], seconds: float) -> None:
        for number in numbers:
            slow.send(number, seconds)
