"""Checking every configured part, one finding each."""

import importlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final

import msgspec

from mainspring.adapters.postgres.checkup import ServerFacts, held_snapshot, server_facts
from mainspring.adapters.postgres.safety import Severity, inspect
from mainspring.config import Settings, shard_settings, unknown_variables
from mainspring.domain.errors import MainspringError, StoreUnavailable
from mainspring.wiring.checkup_database import database_findings
from mainspring.wiring.checkup_roles import role_findings
from mainspring.wiring.connecting import direct_url
from mainspring.wiring.coordination import coordination_findings
from mainspring.wiring.exposure import plain_connections
from mainspring.wiring.findings import Finding
from mainspring.wiring.ready_queue import ready_queue_findings
from mainspring.wiring.replicas import replica_findings

_MOVING: Final = "mainspring.wiring.moving"
_SHARDS: Final = "mainspring.wiring.shards"
"""Loaded only where there are several."""


def of_settings() -> Finding:
    """Look whether every variable that looks like a setting is one."""
    unknown = unknown_variables()
    return Finding(
        "settings",
        not unknown,
        f"no such settings, so they do nothing: {', '.join(unknown)}" if unknown else "valid",
    )


async def findings(settings: Settings) -> AsyncIterator[Finding]:
    """Yield what is found about the servers and what is in them, part by part. What rests on a
    part that is away is left out; shards that are there are looked at without the others.
    """
    for is_well, detail in await coordination_findings(settings):
        yield Finding("etcd", is_well, detail)
    for is_well, detail in await ready_queue_findings(settings):
        yield Finding("redis", is_well, detail)
    parts = shard_settings(settings)
    usable = 0
    for place, part in enumerate(parts, 1):
        mark = f"shard {place}: " if len(parts) > 1 else ""
        async for finding in database_findings(part):
            usable += finding.check == "schema" and finding.ok
            yield msgspec.structs.replace(finding, check=mark + finding.check)
        for is_well, detail in await replica_findings(part):
            yield Finding(f"{mark}replica", is_well, detail)
    if not usable:
        return
    if len(parts) > 1:
        try:
            yield await _of_shards(settings)
        except MainspringError as error:
            yield Finding("shards", ok=False, detail=error.message)
            return
    async for finding in role_findings(settings):
        yield finding


async def _of_shards(settings: Settings) -> Finding:
    labels = await importlib.import_module(_SHARDS).shard_labels(settings)
    lost = [name for name, label in labels if isinstance(label, MainspringError)]
    if lost:
        detail = (
            f"these do not answer: {', '.join(lost)}; their tasks wait until they do, and the "
            "others go on"
        )
        return Finding("shards", ok=False, detail=detail)
    move = await importlib.import_module(_MOVING).move_state(settings)
    if move is not None:
        is_well = move.is_attended and move.refused_seconds is None
        return Finding("shards", ok=is_well, detail=str(move))
    return Finding("shards", ok=True, detail=f"{len(labels)} databases in order, under one map")


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
