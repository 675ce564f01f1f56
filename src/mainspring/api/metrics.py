"""The metrics of the contract, for the whole installation, whoever ran the tasks.

Who may see only a part of the installation gets the figures that are kept for each queue, of its
own queues and by their plain names; all the others are sums over every namespace.

A collector looks at the store now and then, never for more than a tenth of the time, and a scrape
gives out what it saw last. Every API process reports the same installation: take the maximum over
them, not the sum.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from mainspring.core.access import ANONYMOUS, Principal
from mainspring.core.shedding import Shedder
from mainspring.domain.errors import MainspringError
from mainspring.domain.namespaces import plain_queue
from mainspring.domain.priority import level_of
from mainspring.ports.clock import Clock
from mainspring.ports.figures import Ended, Figures
from mainspring.ports.store import (
    Backlog,
    Store,
)
from mainspring.ports.workers import WorkerState

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
LATE_BOUNDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0)
LONG_BOUNDS: Final = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
TYPES_MAX: Final = 100
"""Task types with a label of their own; the others are counted as `other`."""

QUEUES_MAX: Final = 200
COLLECT_SECONDS: Final = 5.0
_SHARE: Final = 10.0
_SETTLED: Final = timedelta(seconds=1)
"""Ends are counted this much later, when all that ended by then is committed."""


class _Histogram:
    """Counts by bucket, and the sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, bucket: int, count: int, total: float) -> None:
        self._counts[bucket] += count
        self._sum += total

    def family(self, name: str, text: str) -> Metric:
        labels = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        buckets = list(zip(labels, map(float, accumulate(self._counts)), strict=True))
        family = HistogramMetricFamily(name, text)
        family.add_metric([], buckets, self._sum)
        return family


class Metrics(Collector):
    """What is known of the installation."""

    def __init__(self, store: Store, figures: Figures, shedder: Shedder, clock: Clock) -> None:
        self._store = store
        self._figures = figures
        self._shedder = shedder
        self._clock = clock
        self._counted_to: datetime | None = None
        self._ended: dict[tuple[str, str], int] = {}
        self._types: set[str] = set()
        self._lateness = _Histogram(LATE_BOUNDS)
        self._duration = _Histogram(LONG_BOUNDS)
        self._dead_letters = 0
        self._unplaceable = 0
        self._leases_expired = 0
        self._planned_at: datetime | None = None
        self._owned_partitions = 0
        self._workers: Sequence[WorkerState] = ()
        self._answers: Iterable[tuple[tuple[str, int], int]] = ()
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def watch_answers(self, answers: dict[tuple[str, int], int]) -> None:
        """Report how often each route answered with each status."""
        self._answers = answers.items()

    async def run(self) -> None:
        """Look at the store until cancelled."""
        while True:
            began = self._clock.monotonic()
            with suppress(MainspringError):
                await self.look()
            took = self._clock.monotonic() - began
            await self._clock.sleep(max(COLLECT_SECONDS, _SHARE * took))

    async def look(self) -> None:
        """Look at the store once."""
        self._workers = await self._store.workers()
        self._dead_letters = await self._store.dead_letter_count()
        self._unplaceable = sum(one.count for one in await self._store.unplaceable())
        self._leases_expired = await self._figures.leases_expired()
        self._planned_at = await self._store.last_round()
        states = await self._store.partition_states()
        self._owned_partitions = sum(state.owner is not None for state in states)
        upto = await self._figures.store_now() - _SETTLED
        if self._counted_to is not None:
            for ended in await self._figures.ended_between(
                self._counted_to, upto, LATE_BOUNDS, LONG_BOUNDS
            ):
                self._count(ended)
        self._counted_to = upto

    def text(self, who: Principal = ANONYMOUS) -> bytes:
        """Return the metrics as Prometheus reads them, as far as who asks may see them."""
        if who.sees_all:
            return generate_latest(self._registry)
        own = CollectorRegistry()
        own.register(_Own(self, who))
        return generate_latest(own)

    def of_queues(self, who: Principal) -> Iterable[Metric]:
        """Yield what was seen last of the queues of who asks."""
        pressure = self._shedder.pressure
        yield from _backlog(
            (plain_queue(b.queue), b) for b in pressure.backlogs if who.sees(b.queue)
        )

    def collect(self) -> Iterable[Metric]:
        """Yield what was seen last."""
        yield from _backlog((b.queue, b) for b in self._shedder.pressure.backlogs)
        tasks = CounterMetricFamily(
            "mainspring_tasks", "Tasks that ended", labels=["task_type", "outcome"]
        )
        for labels, count in self._ended.items():
            tasks.add_metric(labels, count)
        yield tasks
        yield self._lateness.family(
            "mainspring_task_lateness_seconds", "From the due time to the start of a task"
        )
        yield self._duration.family(
            "mainspring_task_duration_seconds", "How long the last attempt of a task ran"
        )
        yield GaugeMetricFamily(
            "mainspring_dead_letters", "Tasks that failed for good", self._dead_letters
        )
        yield GaugeMetricFamily(
            "mainspring_unplaceable_tasks",
            "Due tasks that no live worker can take for the labels that they need",
            self._unplaceable,
        )
        yield CounterMetricFamily(
            "mainspring_leases_expired", "Leases that nobody renewed", self._leases_expired
        )
        yield from self._of_schedulers()
        yield from self._of_workers()
        yield from self._of_process()

    def _of_schedulers(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "mainspring_scheduler_owned_partitions",
            "Partitions of schedules that a scheduler owns, of 64",
            self._owned_partitions,
        )
        if self._planned_at is not None:
            yield GaugeMetricFamily(
                "mainspring_scheduler_last_tick_timestamp_seconds",
                "When a scheduler was last done with what was due, by the store's clock",
                self._planned_at.timestamp(),
            )

    def _of_workers(self) -> Iterable[Metric]:
        states = GaugeMetricFamily("mainspring_workers", "Workers alive", labels=["state"])
        draining = sum(worker.draining for worker in self._workers)
        states.add_metric(["active"], len(self._workers) - draining)
        states.add_metric(["draining"], draining)
        yield states
        slots = GaugeMetricFamily("mainspring_worker_slots", "Room for tasks", labels=["state"])
        busy = sum(worker.busy for worker in self._workers)
        slots.add_metric(["busy"], busy)
        slots.add_metric(["free"], max(0, sum(w.slots for w in self._workers) - busy))
        yield slots

    def _of_process(self) -> Iterable[Metric]:
        turned = CounterMetricFamily(
            "mainspring_tasks_turned_away", "Tasks not accepted under load", labels=["level"]
        )
        for level, count in self._shedder.turned_away.items():
            turned.add_metric([level.value], count)
        yield turned
        answers = CounterMetricFamily(
            "mainspring_api_answers", "Answers of this process", labels=["route", "status"]
        )
        for (route, status), count in self._answers:
            answers.add_metric([route, str(status)], count)
        yield answers

    def _count(self, ended: Ended) -> None:
        task_type = ended.task_type
        if task_type not in self._types:
            if len(self._types) >= TYPES_MAX:
                task_type = "other"
            self._types.add(task_type)
        key = (task_type, ended.outcome)
        self._ended[key] = self._ended.get(key, 0) + ended.count
        if ended.late_bucket is not None and ended.lateness is not None:
            self._lateness.add(ended.late_bucket, ended.count, ended.lateness)
        if ended.long_bucket is not None and ended.duration is not None:
            self._duration.add(ended.long_bucket, ended.count, ended.duration)


class _Own(Collector):
    """What a part of the installation is told."""

    def __init__(self, metrics: Metrics, who: Principal) -> None:
        self._metrics = metrics
        self._who = who

    def collect(self) -> Iterable[Metric]:
        return self._metrics.of_queues(self._who)


def _backlog(named: Iterable[tuple[str, Backlog]]) -> Iterable[Metric]:
    depth = GaugeMetricFamily(
        "mainspring_queue_depth", "Tasks that are due", labels=["queue", "level"]
    )
    age = GaugeMetricFamily(
        "mainspring_oldest_task_age_seconds",
        "How long the oldest due task waits that is not held",
        labels=["queue", "level"],
    )
    held = GaugeMetricFamily(
        "mainspring_held_tasks",
        "Tasks that are due and held by the turn of their group or by a limit",
        labels=["queue"],
    )
    depths: dict[tuple[str, str], int] = {}
    holds: dict[str, int] = {}
    ages: dict[tuple[str, str], float] = {}
    queues: set[str] = set()
    for name, backlog in named:
        queue = name if len(queues) < QUEUES_MAX else "other"
        queues.add(queue)
        key = (queue, level_of(backlog.priority).value)
        depths[key] = depths.get(key, 0) + backlog.ready
        holds[queue] = holds.get(queue, 0) + backlog.held
        ages[key] = max(ages.get(key, 0.0), backlog.oldest_seconds)
    for key, count in depths.items():
        depth.add_metric(key, count)
        age.add_metric(key, ages[key])
    for queue, count in holds.items():
        held.add_metric([queue], count)
    yield depth
    yield age
    yield held
