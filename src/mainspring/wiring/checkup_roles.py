"""Checking the processes at work: schedulers and workers, as the task store knows them."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Final

from mainspring.config import Settings
from mainspring.domain.errors import MainspringError
from mainspring.domain.ids import PARTITIONS
from mainspring.ports.whole import WholeStore
from mainspring.ports.workers import WorkerState
from mainspring.wiring.findings import Finding
from mainspring.wiring.store import open_store

UNSERVED_SECONDS: Final = 10.0
"""Ready tasks that have waited for less may just be the next to be claimed."""

PLANNED_SECONDS: Final = 20.0
"""Schedulers note more often than this that they are at work."""

SEEN_SECONDS: Final = 20.0
"""Workers say more often than this that they are alive."""

_NAMED: Final = 3

Look = Callable[[WholeStore], Awaitable[Finding]]


async def role_findings(settings: Settings) -> AsyncIterator[Finding]:
    """Yield what is found about those at work; the parts of the store that answer speak for all."""
    try:
        store = await open_store(settings)
    except MainspringError as error:
        yield Finding("workers", ok=False, detail=error.message)
        return
    looks: dict[str, Look] = {"workers": _workers, "schedulers": _schedulers, "task types": _types}
    try:
        for check, look in looks.items():
            try:
                yield await look(store)
            except MainspringError as error:
                yield Finding(check, ok=False, detail=error.message)
    finally:
        await store.close()


async def _workers(store: WholeStore) -> Finding:
    found = await store.workers()
    now = await store.store_time()
    # Those that work over the API are heard of only when they ask for something.
    silent = [one for one in found if one.pid and _age(one.seen_at, now) > SEEN_SECONDS]
    letters = f"{await store.dead_letter_count()} dead letters"
    if silent:
        names = _some([f"{one.worker_id} for {_age(one.seen_at, now):.0f} s" for one in silent])
        return Finding(
            "workers",
            ok=False,
            detail=f"{len(found) - len(silent)} alive; nothing was heard of {names}: they were "
            "killed or cut off, and their tasks run again elsewhere when the leases are over",
        )
    if not found:
        detail = f"none is alive, so tasks wait; start `mainspring worker --app`; {letters}"
        return Finding("workers", ok=True, detail=detail)
    draining = sum(one.draining for one in found)
    busy, slots = sum(one.busy for one in found), sum(one.slots for one in found)
    said = [f"{len(found)} alive on {_hosts(found)}", f"{busy} of {slots} slots busy"]
    if draining:
        said.append(f"{draining} of them draining")
    return Finding("workers", ok=True, detail="; ".join([", ".join(said), letters]))


async def _schedulers(store: WholeStore) -> Finding:
    planned = await store.last_round()
    now = await store.store_time()
    if planned is None:
        has_schedules = bool(await store.list_schedules(1))
        what = "none is at work" + (", so no schedule runs" if has_schedules else "")
        return Finding("schedulers", not has_schedules, f"{what}; start `mainspring scheduler`")
    age = _age(planned, now)
    if age > PLANNED_SECONDS:
        return Finding(
            "schedulers",
            ok=False,
            detail=f"none has been at work for {age:.0f} s: no schedule runs, and tasks of dead "
            "workers are not taken back; start `mainspring scheduler`, or read its log",
        )
    owners = Counter(state.owner for state in await store.partition_states())
    free = owners.pop(None, 0)
    if free:
        return Finding(
            "schedulers",
            ok=False,
            detail=f"{len(owners)} at work, and {free} of {PARTITIONS} partitions have no owner; "
            "look again in a few seconds, and if it stays so read the logs of the schedulers",
        )
    shares = _some([f"{owner} {count}" for owner, count in sorted(owners.items(), key=str)])
    detail = f"{len(owners)} own the {PARTITIONS} partitions of schedules: {shares}"
    return Finding("schedulers", ok=True, detail=detail)


async def _types(store: WholeStore) -> Finding:
    unserved = await store.unserved(UNSERVED_SECONDS)
    if unserved:
        detail = (
            f"ready tasks wait that no worker has a handler for: {', '.join(unserved)}; start a "
            "worker with the app that has them"
        )
        return Finding("task types", ok=False, detail=detail)
    detail = (
        f"no task waits for over {UNSERVED_SECONDS:.0f} s without a worker that has its handler"
    )
    return Finding("task types", ok=True, detail=detail)


def _age(moment: datetime | None, now: datetime) -> float:
    return 0.0 if moment is None else (now - moment).total_seconds()


def _hosts(found: list[WorkerState]) -> str:
    count = len({one.hostname for one in found})
    return "1 host" if count == 1 else f"{count} hosts"


def _some(names: list[str]) -> str:
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
