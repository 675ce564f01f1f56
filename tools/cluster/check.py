"""Breaks a cluster under load and judges what became of everything that was submitted."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import UUID

from tools.cluster.load import Load
from tools.cluster.programs import LOOK_SECONDS, Part, Role
from tools.cluster.running import Cluster, Tell, together

from mainspring.cli.trial.result import Result
from mainspring.domain.ids import PARTITIONS
from mainspring.domain.status import TaskStatus
from mainspring.ports.schedules import TickKind
from mainspring.ports.whole import WholeStore
from mainspring.wiring.ready_queue import ready_queue_findings
from mainspring.wiring.store import open_store

INTERVAL = "cluster.every-second"
CRON = "cluster.every-minute"
MOVED_SHARE_MAX = 0.10
"""On top of the share of the one that came or left."""

_PATIENCE_SECONDS = 40.0
_AT_A_TIME = 500


class Executions(NamedTuple):
    """What the handlers noted."""

    started: dict[str, float]
    """When each task first began, in seconds since 1970."""

    attempts: Counter[str]
    """In how many attempts each began."""

    done: dict[str, list[int]]
    """The attempts of each that came to their end."""


class Check:
    """One run over a cluster that has started."""

    def __init__(self, cluster: Cluster, rate: float, tell: Tell) -> None:
        self._cluster = cluster
        self._tell = tell
        self._load = Load(lambda: [role.url for role in cluster.named("api")], cluster.key, rate)
        self._store: WholeStore | None = None

    async def results(self) -> list[Result]:
        """Do everything and say what was seen."""
        self._store = store = await open_store(self._cluster.settings)
        load = self._load
        running = asyncio.create_task(load.run())
        try:
            await self._make_schedules()
            results = await self._change_workers()
            results += await self._change_schedulers(store)
            results.append(self._seen())
            load.errors.clear()
            load.repeats = True
            results += await self._kill_one_of_each()
            load.end()
            await running
            results += await self._judge_tasks(store)
            results.append(await self._judge_schedule(INTERVAL, timedelta(seconds=1)))
            if self._cluster.redis:
                results.append(await self._judge_ready_queue())
            await self._backfill_last_minute()
            results.append(await self._judge_schedule(CRON, timedelta(minutes=1)))
        finally:
            running.cancel()
            await load.close()
            await store.close()
        return results

    async def _make_schedules(self) -> None:
        for name, timetable in ((INTERVAL, {"every": 1.0}), (CRON, {"cron": "* * * * *"})):
            policies = {"misfire": "run_all", "overlap": "allow"}
            body = {"name": name, "task_type": "nap", **timetable, **policies}
            await self._load.call("POST", "/v1/schedules", body)

    async def _change_workers(self) -> list[Result]:
        cluster = self._cluster
        self._tell("a worker drains, one joins, one is killed and started again")
        status = await cluster.remove(cluster.named("worker")[0])
        await cluster.add("worker").start()
        killed = cluster.named("worker")[0]
        await killed.kill()
        await killed.start()
        said = f"drained with status {status}; {len(cluster.named('worker'))} are ready"
        return [Result("workers leave, join and die", "drained with status 0", said, ok=not status)]

    async def _change_schedulers(self, store: WholeStore) -> list[Result]:
        cluster = self._cluster
        self._tell("a scheduler drains, another joins")
        count = len(cluster.named("scheduler"))
        before = await self._owners(store, count)
        leaving = cluster.named("scheduler")[0]
        status = await cluster.remove(leaving)
        between = await self._owners(store, count - 1)
        await cluster.add("scheduler").start()
        after = await self._owners(store, count)
        bound = 1 / count + MOVED_SHARE_MAX
        results = []
        for what, one, other in (
            (f"one of {count} schedulers leaves", before, between),
            (f"one joins {count - 1} schedulers", between, after),
        ):
            moved = sum(one[partition] != other[partition] for partition in one)
            share = moved / PARTITIONS
            results.append(
                Result(
                    what,
                    f"at most {bound:.0%} of the partitions move",
                    f"{moved} of {PARTITIONS} moved, {share:.0%}",
                    ok=share <= bound and not status,
                )
            )
        return results

    def _seen(self) -> Result:
        """Judge what the user saw while nothing failed that a user should notice."""
        load = self._load
        rate = len(load.accepted) / (time.monotonic() - load.began)
        return Result(
            "what the user saw meanwhile",
            "no error",
            f"{len(load.errors)} errors in {len(load.accepted)} submissions, {rate:.0f} a second, "
            f"the slowest {load.slowest:.2f} s{_first(load.errors)}",
            ok=not load.errors and bool(load.accepted),
        )

    async def _owners(self, store: WholeStore, count: int) -> dict[int, str | None]:
        """Return the owners when so many have the same number of partitions each."""

        async def look() -> dict[int, str | None] | None:
            owners = {one.partition: one.owner for one in await store.partition_states()}
            shares = Counter(owners.values())
            is_even = max(shares.values()) - min(shares.values()) <= 1
            return owners if len(shares) == count and None not in shares and is_even else None

        owners: dict[int, str | None] = await until(look, f"{count} schedulers of even shares")
        return owners

    async def _kill_one_of_each(self) -> list[Result]:
        cluster = self._cluster
        chosen: list[Part] = [
            *cluster.named("scheduler")[:1],
            *cluster.named("worker")[-1:],
            *cluster.etcd[:1],
            *cluster.redis[:1],
            *cluster.named("api")[:1],
            *cluster.postgres[-1:],
        ]
        names = ", ".join(part.name for part in chosen)
        self._tell(f"kill -9: {names}")
        for part in chosen:
            await part.kill()
        began = time.monotonic()
        # Servers before those that need them, as any supervisor would end up with.
        await together(part.start for part in chosen if not isinstance(part, Role))
        await together(part.start for part in chosen if isinstance(part, Role))
        took = time.monotonic() - began
        others = [role for role in cluster.roles if role not in chosen]
        dead = [role.name for role in others if role.pid is None]
        return [
            Result(
                "one of each is killed (-9)",
                f"the others live, and {len(chosen)} are ready again",
                f"{len(chosen)} ready again after {took:.1f} s"
                + (f"; {', '.join(dead)} died, too" if dead else ""),
                ok=not dead,
            )
        ]

    async def _judge_tasks(self, store: WholeStore) -> list[Result]:
        load, accepted = self._load, [UUID(one) for one in self._load.accepted]

        async def look() -> bool | None:
            counts: Counter[TaskStatus | None] = Counter()
            for at in range(0, len(accepted), _AT_A_TIME):
                part = accepted[at : at + _AT_A_TIME]
                found = await store.statuses(part)
                counts.update(found.get(one) for one in part)
            return counts == {TaskStatus.COMPLETED: len(accepted)} or None

        await until(look, f"the end of {len(accepted)} tasks")
        noted = read_executions(self._cluster)
        never = [one for one in load.accepted if not noted.done.get(one)]
        twice = [one for one in load.accepted if len(noted.done.get(one, ())) > 1]
        same = [one for one, attempts in noted.done.items() if len(set(attempts)) < len(attempts)]
        again = sum(noted.attempts[one] > 1 for one in load.accepted)
        early = [one for one, at in load.later.items() if noted.started[one] < at.timestamp()]
        return [
            Result(
                "tasks that were acknowledged",
                "each ran to its end, no attempt twice, and again only after a death",
                f"{len(accepted)} tasks: {len(never)} never, {len(twice)} twice, {again} had a "
                f"further attempt, {len(same)} attempts ran twice",
                ok=not never and not same and len(twice) <= again,
            ),
            Result(
                "tasks for a later time",
                "none starts early",
                f"{len(load.later)} tasks, {len(early)} early",
                ok=bool(load.later) and not early,
            ),
            Result(
                "submissions while parts were killed",
                "acknowledged in the end, repeated under their keys",
                f"{load.repeated} repetitions, {len(load.errors)} given up{_first(load.errors)}",
                ok=not load.errors,
            ),
        ]

    async def _backfill_last_minute(self) -> None:
        """No minute may have begun during the check; the one before is the same run for a time that
        has passed.
        """
        minute = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=5)
        span = {"start": minute.isoformat(), "end": (minute + timedelta(minutes=1)).isoformat()}
        await self._load.call("POST", f"/v1/schedules/{CRON}/backfill", span)

    async def _judge_ready_queue(self) -> Result:
        """Redis was killed and came back empty: it has to be fed anew, for each shard."""
        settings = self._cluster.settings

        async def look() -> str | None:
            ((is_well, detail),) = await ready_queue_findings(settings)
            return detail if is_well else None

        detail: str = await until(look, "a ready queue that is fed")
        said = detail.partition(": ")[2]
        return Result("the ready queue in Redis", "fed again", said, ok=True)

    async def _judge_schedule(self, name: str, step: timedelta) -> Result:
        load = self._load
        await load.call("POST", f"/v1/schedules/{name}/pause", {})

        async def look() -> list[dict[str, Any]] | None:
            path = f"/v1/schedules/{name}/history?limit=1000"
            found: list[dict[str, Any]] = (await load.call("GET", path))["ticks"]
            is_done = all(one["task_status"] == "completed" for one in found)
            return found if found and is_done else None

        ticks = await until(look, f"the end of the tasks of {name}")
        noted = read_executions(self._cluster)
        times = sorted(
            datetime.fromisoformat(one["nominal_at"])
            for one in ticks
            if one["kind"] == TickKind.SCHEDULED
        )
        gaps = sum(later - time != step for time, later in pairwise(times))
        tasks = {one["task_id"] for one in ticks}
        lost = sum(not noted.done.get(one) for one in tasks)
        return Result(
            f"the schedule {name}",
            "each of its times once, and each ran",
            f"{len(ticks)} times, {len(tasks)} tasks, {gaps} gaps, {lost} never ran",
            ok=not gaps and not lost and len(tasks) == len(ticks) > 0,
        )


async def until(look: Callable[[], Awaitable[Any]], what: str) -> Any:
    """Look again and again until there is something to see, and return it."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while (seen := await look()) is None:
        if time.monotonic() > end:
            raise TimeoutError(f"not seen within {_PATIENCE_SECONDS:g} s: {what}")
        await asyncio.sleep(3 * LOOK_SECONDS)
    return seen


def read_executions(cluster: Cluster) -> Executions:
    """Read what the handlers noted so far."""
    noted = Executions({}, Counter(), {})
    for line in cluster.executions.read_text().splitlines():
        one = json.loads(line)
        task = one["task"]
        if one["event"] == "start":
            noted.attempts[task] += 1
            noted.started[task] = min(one["at"], noted.started.get(task, one["at"]))
        else:
            noted.done.setdefault(task, []).append(one["attempt"])
    return noted


def _first(errors: list[str]) -> str:
    return f"; first: {errors[0]}" if errors else ""
