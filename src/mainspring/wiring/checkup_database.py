"""Checking a database, the server that has it, and what stands between."""

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from mainspring.adapters.postgres.checkup import ServerFacts, server_facts, way_to
from mainspring.adapters.postgres.safety import Severity, durability
from mainspring.adapters.system import SystemClock
from mainspring.config import Settings, without_password
from mainspring.domain.errors import MainspringError
from mainspring.ports.clock import Clock
from mainspring.wiring.connecting import database_url, direct_url, pool_options
from mainspring.wiring.findings import Finding
from mainspring.wiring.store import migration_plan

OFFSET_SECONDS_MAX: Final = 1.0
SNAPSHOT_SECONDS_MAX: Final = 300.0

_CONNECTIONS_MIN: Final = 20


async def database_findings(settings: Settings) -> AsyncIterator[Finding]:
    """Yield what is found about one database, or one shard."""
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
    yield await _pooler(settings)
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


async def _pooler(settings: Settings) -> Finding:
    """Look at the way through a pooler, and past it, where processes do."""
    options = pool_options(settings)
    try:
        way = await way_to(options.dsn)
        past = way if options.direct_dsn is None else await way_to(options.direct_dsn)
    except MainspringError as error:
        detail = f"the way that processes take does not lead to the database: {error.message}"
        return Finding("pooler", ok=False, detail=detail)
    if way.is_pooled and not options.pooled:
        return Finding(
            "pooler",
            ok=False,
            detail="one stands between and the settings do not say so; set database_pooled, and "
            "database_direct_url to the way past it",
        )
    if options.direct_dsn is not None and past.is_pooled:
        return Finding(
            "pooler",
            ok=False,
            detail="database_direct_url leads through a pooler, so hints between processes are "
            "lost; name the server itself",
        )
    if past.database != way.database:
        return Finding(
            "pooler",
            ok=False,
            detail="database_url and database_direct_url lead to different databases; name the "
            "same one in both",
        )
    return Finding("pooler", ok=True, detail=_said_of_way(way.is_pooled, options.direct_dsn))


def _said_of_way(is_pooled: bool, direct_dsn: str | None) -> str:  # noqa: FBT001 - it is the subject
    if not is_pooled:
        return "none stands between"
    if direct_dsn is None:
        return (
            "stands between; without database_direct_url workers hear of new tasks only by looking"
        )
    return "stands between, and there is a way past it"
