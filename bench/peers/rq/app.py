"""RQ on Redis: SimpleWorker (no fork for each job), JSON, results not kept."""

import os
from datetime import UTC, datetime

import jobs
import probe
from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer

queue = Queue(
    "default", connection=Redis.from_url(os.environ["BENCH_REDIS"]), serializer=JSONSerializer
)
BATCH = 1000


class Client:
    def open(self) -> None:
        queue.connection.ping()

    def one(self) -> None:
        queue.enqueue(jobs.noop, probe.PAYLOAD, result_ttl=0)

    def bulk(self, count: int) -> None:
        for start in range(0, count, BATCH):
            queue.enqueue_many(
                [
                    Queue.prepare_data(jobs.noop, (probe.PAYLOAD,), result_ttl=0)
                    for _ in range(min(BATCH, count - start))
                ]
            )

    def schedule(self, items: list[tuple[int, float]]) -> None:
        for number, due in items:
            at = datetime.fromtimestamp(due, UTC)
            queue.enqueue_at(at, jobs.mark, probe.PAYLOAD, number, due, result_ttl=0)

    def slow(self, numbers: list[int], seconds: float) -> None:
        for number in numbers:
            queue.enqueue(jobs.slow, number, seconds)
