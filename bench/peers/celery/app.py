"""Celery on Redis: results ignored, JSON, prefetch multiplier 128; started without gossip, mingle
and heartbeat.
"""

import os
import time
from datetime import UTC, datetime
from typing import Any

import probe
from celery import Celery

app = Celery("app", broker=os.environ["BENCH_REDIS"])
app.conf.update(
    accept_content=["json"],
    broker_connection_retry_on_startup=True,
    enable_utc=True,
    task_acks_late=os.environ.get("BENCH_ACKS_LATE") == "1",
    task_ignore_result=True,
    task_serializer="json",
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
    worker_prefetch_multiplier=128,
    worker_redirect_stdouts=False,
    worker_send_task_events=False,
)


@app.task(name="noop")
def noop(payload: dict[str, Any]) -> None:
    del payload
    probe.hit()


@app.task(name="mark")
def mark(payload: dict[str, Any], number: int, due: float) -> None:
    del payload
    probe.late(number, due)


@app.task(name="slow")
def slow(number: int, seconds: float) -> None:
    probe.started(number)
    time.sleep(seconds)
    probe.ended(number)


class Client:
    def open(self) -> None:
        app.connection_for_write().ensure_connection()

    def one(self) -> None:
        noop.delay(probe.PAYLOAD)

    def bulk(self, count: int) -> None:
        with app.producer_pool.acquire(block=True) as producer:
            for _ in range(count):
                noop.apply_async((probe.PAYLOAD,), producer=producer)

    def schedule(self, items: list[tuple[int, float]]) -> None:
        with app.producer_pool.acquire(block=True) as producer:
            for number, due in items:
                eta = datetime.fromtimestamp(due, UTC)
                mark.apply_async((probe.PAYLOAD, number, due), eta=eta, producer=producer)

    def slow(self, numbers: list[int], seconds: float) -> None:
        for number in numbers:
            slow.delay(number, seconds)
