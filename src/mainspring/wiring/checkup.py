"""Checking every configured part, one finding each."""

import importlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final

import msgspec

from mainspring.adapters.postgres.checkup import ServerFacts, held_snapshot, server_facts
from mainspring.adapters.postgres.safety import Severity, durability, inspect
from mainspring.adapters.system import SystemClock
from mainspring.config import Settings, shard_settings, unknown_variables, without_password
from mainspring.domain.errors import MainspringError, StoreUnavailable
from mainspring.ports.clock import Clock
from mainspring.wiring.connecting import database_url, direct_url
from mainspring.wiring.coordination import coordination_findings
from mainspring.wiring.exposure import plain_connections
from mainspring.wiring.ready_queue import ready_queue_findings
from mainspring.wiring.store import migration_plan, open_store

OFFSET_SECONDS_MAX: Final = 1.0
SNAPSHOT_SECONDS_MAX: Final = 300.0
UNSERVED_SECONDS: Final = 10.0
"""Ready tasks that have waited for less may just be the next to be claimed."""

_CONNECTIONS_MIN: Final = 20
_SHARDS: Final = "mainspring.wiring.shards"
"""Loaded only where there are several."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    check: str
    ok: bool
    detail: str


def of_settings() -> Finding:
    """Look whether every variable that looks like a setting is one."""
    unknown = unknown_variables()
    return Finding(
        "settings",
        not unknown,
        f"no such settings, so they do nothing: {', '.join(unknown)}" if unknown else "valid",
    )


async def findings(settings: Settings) -> AsyncIterator[Finding]:
    """Yield what is found about the database and what is in it, part by part; stops where the next
    part cannot be looked at.
    """
    for is_well, detail in await coordination_findings(settings):
        yield Finding("etcd", is_well, detail)
    for is_well, detail in await ready_queue_findings(settings):
        yield Finding("redis", is_well, detail)
    parts = shard_settings(settings)
    usable = 0
    for place, part in enumerate(parts, 1):
        async for finding in _of_database(part):
            usable += finding.check == "schema" and finding.ok
            mark = f"shard {place}: " if len(parts) > 1 else ""
            yield msgspec.structs.replace(finding, check=mark + finding.check)
    if not usable:
        return
    if len(parts) > 1:
        finding = await _of_shards(settings)
        yield finding
        if not finding.ok:
            return
    async for finding in _workers(settings):
        yield finding


async def _of_shards(settings: Settings) -> Finding:
    try:
        labels = await importlib.import_module(_SHARDS).shard_labels(settings)
    except MainspringError as error:
        return Finding("shards", ok=False, detail=error.message)
    lost = [name for name, label in labels if isinstance(label, MainspringError)]
    detail = f"{len(labels)} databases in their order, under one map"
    return Finding(
        "shards", not lost, f"these do not answer: {', '.join(lost)}" if lost else detail
    )


async def _of_database(settings: Settings) -> AsyncIterator[Finding]:
    clock = SystemClock()
    try:
        url = database_url(settings)
        sent = clock.monotonic()
        facts = await server_facts(direct_url(settings))
        took = clock.monotonic() - sent
    except MainspringError as error:
        yield Finding("database", ok=False, detail=error.message)
        return
    yield Finding(
        "database",
        ok=True,
        detail=f"PostgreSQL {facts.version} at {without_password(url)}, {took * 1000:.0f} ms",
    )
    for finding in _of_server(facts, clock, took):
        yield finding
    try:
        missing = await migration_plan(settings)
    except MainspringError as error:
        yield Finding("schema", ok=False, detail=error.message)
        return
    names = ", ".join(name for name, _ in missing)
    yield Finding(
        "schema",
        not missing,
        f"missing: {names}; run `mainspring migrate`" if missing else "up to date",
    )


def _of_server(facts: ServerFacts, clock: Clock, took: float) -> list[Finding]:
    judged = durability(msgspec.structs.asdict(facts))
    risky = [one.message for one in judged if one.severity is not Severity.OK]
    offset = (clock.now() - facts.now).total_seconds() - took / 2
    in_step = abs(offset) <= OFFSET_SECONDS_MAX + took
    old = facts.oldest_snapshot_seconds
    return [
        Finding("durability", not risky, "; ".join(risky or [one.message for one in judged])),
        Finding(
            "writes",
            not facts.read_only,
            "the server is read-only: a standby?" if facts.read_only else "accepted",
        ),
        Finding(
            "connections",
            facts.max_connections >= _CONNECTIONS_MIN,
            f"up to {facts.max_connections}",
        ),
        Finding(
            "clock",
            in_step,
            f"this machine is {offset:+.3f} s off the server's clock"
            + ("" if in_step else "; times follow the server, so synchronise both"),
        ),
        Finding(
            "snapshots",
            old <= SNAPSHOT_SECONDS_MAX,
            f"the oldest open transaction is {old:.0f} s old"
            + ("" if old <= SNAPSHOT_SECONDS_MAX else "; it slows everything, so end it"),
        ),
    ]


async def _workers(settings: Settings) -> AsyncIterator[Finding]:
    store = await open_store(settings)
    try:
        found = await store.workers()
        dead_letters = await store.dead_letter_count()
        unserved = await store.unserved(UNSERVED_SECONDS)
        owners = [state.owner for state in await store.partition_states()]
    except MainspringError as error:
        yield Finding("workers", ok=False, detail=error.message)
        return
    finally:
        await store.close()
    yield Finding("workers", ok=True, detail=f"{len(found)} alive; {dead_letters} dead letters")
    schedulers, free = len(set(owners) - {None}), owners.count(None)
    shares = f"{schedulers} own the partitions of schedules" + (
        f"; {free} have none" if free else ""
    )
    yield Finding("schedulers", ok=True, detail=shares)
    detail = (
        f"no task waits for over {UNSERVED_SECONDS:.0f} s without a worker that has its handler"
    )
    if unserved:
        detail = f"ready tasks wait that no worker has a handler for: {', '.join(unserved)}"
    yield Finding("task types", not unserved, detail)


async def risks(settings: Settings) -> list[str]:
    """Return a sentence for each setting of the server that endangers what it was told to keep,
    and for each connection on which others may read along.
    """
    parts = shard_settings(settings)
    dangers: list[str] = []
    for place, part in enumerate(parts, 1):
        try:
            found = await inspect(direct_url(part), session=False)
        except StoreUnavailable as error:
            if len(parts) == 1:
                raise
            dangers.append(f"shard {place} does not answer, the others go on: {error.message}")
            continue
        dangers += [one.message for one in found if one.severity is Severity.WARNING]
        dangers += plain_connections(part)
    return list(dict.fromkeys(dangers))


async def facts_of(settings: Settings) -> ServerFacts:
    """Return what the database server says of itself."""
    return await server_facts(direct_url(settings))


def old_snapshot(settings: Settings) -> AbstractAsyncContextManager[None]:
    """Hold a snapshot on the database for the time of a block; it keeps dead rows alive."""
    return held_snapshot(direct_url(settings))
