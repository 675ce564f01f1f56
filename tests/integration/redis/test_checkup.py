"""What `mainspring doctor` says of Redis."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from fixtures.valkey import ValkeyServer
from mainspring.config import Settings
from mainspring.ports.ready_queue import Feeding
from mainspring.wiring.ready_queue import ready_queue_findings
from mainspring.wiring.redis import redis_ready_queue


@pytest.fixture
def settings(own_valkey: ValkeyServer) -> Settings:
    return dataclasses.replace(Settings(), ready_queue="redis", redis_url=own_valkey.url)


async def feed(settings: Settings) -> None:
    queue = redis_ready_queue(settings)
    until = datetime.now(UTC) + timedelta(seconds=30)
    began = await queue.begin(Feeding(slice=0, epoch=1, until=until, paused=frozenset()))
    assert began is not None
    assert await began.fill([], {}) == 0
    await queue.close()


async def test_what_is_not_used_is_not_looked_at() -> None:
    assert await ready_queue_findings(Settings()) == []


async def test_a_server_that_is_well(settings: Settings) -> None:
    await feed(settings)
    ((is_well, said),) = await ready_queue_findings(settings)
    assert is_well, said
    assert "1 of 1 slices fed, 0 tasks due soon" in said


async def test_a_server_for_locks_alone(settings: Settings, own_valkey: ValkeyServer) -> None:
    settings = dataclasses.replace(settings, ready_queue="postgres")
    ((is_well, said),) = await ready_queue_findings(settings)
    assert is_well, said
    assert said.endswith(": for locks")
    own_valkey.kill()
    ((is_well, said),) = await ready_queue_findings(settings)
    assert not is_well
    assert "exclusive tasks wait until it does" in said


async def test_a_queue_that_nobody_feeds(settings: Settings) -> None:
    ((is_well, said),) = await ready_queue_findings(settings)
    assert not is_well
    assert "start a scheduler" in said


async def test_a_server_that_drops_keys(settings: Settings, own_valkey: ValkeyServer) -> None:
    own_valkey.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    ((is_well, said),) = await ready_queue_findings(settings)
    assert not is_well
    assert "set its maxmemory-policy to noeviction" in said


async def test_a_server_that_is_away(settings: Settings, own_valkey: ValkeyServer) -> None:
    own_valkey.kill()
    ((is_well, said),) = await ready_queue_findings(settings)
    assert not is_well
    assert "redis_url" in said
    assert said.endswith("workers ask the database instead")
