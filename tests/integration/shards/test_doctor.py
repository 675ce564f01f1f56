"""What `mainspring doctor` says of each part of a cluster, with real servers, some of them down."""

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from fixtures.etcd import EtcdServer
from fixtures.postgres import PostgresServer
from fixtures.valkey import ValkeyServer
from integration.shards.conftest import Two
from mainspring.cli.root import run
from mainspring.config import Settings
from mainspring.domain.ids import PARTITIONS
from mainspring.ports.workers import WorkerState
from mainspring.wiring.checkup import findings
from mainspring.wiring.findings import Finding
from mainspring.wiring.store import open_store

pytestmark = pytest.mark.postgres


async def found(settings: Settings) -> dict[str, list[Finding]]:
    by_check: dict[str, list[Finding]] = {}
    async for finding in findings(settings):
        by_check.setdefault(finding.check, []).append(finding)
    return by_check


async def only(settings: Settings, check: str) -> Finding:
    (finding,) = (await found(settings))[check]
    return finding


async def do(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def test_one_of_each_is_down_and_the_rest_is_looked_at(
    two: Two,
    own_etcd: EtcdServer,
    own_valkey: ValkeyServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    own_valkey.kill()
    await two.reaches[1].lose()
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "DATABASE_URL": two.settings.database_url,
        "COORDINATION": "etcd",
        "ETCD_URL": f"{own_etcd.url},http://127.0.0.1:1",
        "READY_QUEUE": "redis",
        "REDIS_URL": own_valkey.url,
    }.items():
        monkeypatch.setenv(f"MAINSPRING_{name}", value)

    # A database that is away: 3.
    assert await asyncio.to_thread(run, ["doctor", "--json"]) == 3
    lines: list[dict[str, Any]] = [
        json.loads(line) for line in capsys.readouterr().out.splitlines()
    ]
    said = {(one["check"], one["ok"]): one["detail"] for one in lines}
    assert "127.0.0.1:1 cannot be reached" in said["etcd", False]
    assert own_etcd.endpoint not in said["etcd", False] or "lose data" in said["etcd", False]
    assert said["redis", False].endswith("workers ask the database instead")
    assert said["shard 1: schema", True] == "up to date"
    assert said["shard 1: pooler", True] == "none stands between"
    assert ("shard 2: database", False) in said
    assert "the others go on" in said["shards", False]
    # What is in the shard that answers is still worth knowing.
    assert "start `mainspring worker --app`" in said["workers", True]
    assert "schedulers" in {one["check"] for one in lines}

    assert await asyncio.to_thread(run, ["doctor"]) == 3
    assert "WRONG  shard 2: database" in capsys.readouterr().out


async def test_everything_is_well_but_nobody_feeds_redis(
    two: Two, own_valkey: ValkeyServer
) -> None:
    own_valkey.ask("CONFIG", "SET", "appendonly", "yes")
    settings = dataclasses.replace(two.settings, ready_queue="redis", redis_url=own_valkey.url)
    by_check = await found(settings)
    assert [name for name, ones in by_check.items() if not all(one.ok for one in ones)] == ["redis"]
    assert "does not need its appendonly file" in by_check["redis"][0].detail


async def test_endpoints_of_two_clusters(own_etcd: EtcdServer, etcd_server: EtcdServer) -> None:
    settings = dataclasses.replace(
        Settings(), coordination="etcd", etcd_url=f"{own_etcd.url},{etcd_server.url}"
    )
    by_check = await found(settings)
    assert any("different leaders" in one.detail for one in by_check["etcd"])


async def test_a_pooler_in_between(
    pgbouncer: str, database: str, empty_database: str, postgres_server: PostgresServer
) -> None:
    del postgres_server
    plain = dataclasses.replace(Settings(), database_url=pgbouncer)
    unknown = await only(plain, "pooler")
    assert not unknown.ok
    assert "set database_pooled" in unknown.detail
    known = await only(dataclasses.replace(plain, database_pooled=True), "pooler")
    assert known.ok
    assert "only by looking" in known.detail
    past = await only(dataclasses.replace(plain, database_direct_url=database), "pooler")
    assert (past.ok, past.detail) == (True, "stands between, and there is a way past it")
    again = f"{pgbouncer}?application_name=again"
    twice = await only(dataclasses.replace(plain, database_direct_url=again), "pooler")
    assert not twice.ok
    assert "name the server itself" in twice.detail
    other = await only(dataclasses.replace(plain, database_direct_url=empty_database), "pooler")
    assert not other.ok
    assert "different databases" in other.detail
    gone = await only(
        dataclasses.replace(
            Settings(), database_url="postgresql://127.0.0.1:1/x", database_direct_url=database
        ),
        "pooler",
    )
    assert not gone.ok
    assert "does not lead to the database" in gone.detail


async def test_schedulers(database: str) -> None:
    settings = dataclasses.replace(Settings(), database_url=database)
    none = await only(settings, "schedulers")
    assert (none.ok, none.detail) == (True, "none is at work; start `mainspring scheduler`")
    store = await open_store(settings)
    try:
        await store.note_round()
        free = await only(settings, "schedulers")
        assert not free.ok
        assert f"{PARTITIONS} of {PARTITIONS} partitions have no owner" in free.detail
        await store.raise_epochs(range(40), "host-a:1:x")
        await store.raise_epochs(range(40, PARTITIONS), "host-b:2:y")
        well = await only(settings, "schedulers")
        assert well.ok
        assert well.detail.endswith(
            "2 own the 64 partitions of schedules: host-a:1:x 40, host-b:2:y 24"
        )
    finally:
        await store.close()
    await do(
        database,
        "UPDATE mainspring.counters SET value = value - 90000000 WHERE name = 'planned_at'",
    )
    late = await only(settings, "schedulers")
    assert not late.ok
    assert "none has been at work for 9" in late.detail


async def test_workers(database: str) -> None:
    settings = dataclasses.replace(Settings(), database_url=database)
    store = await open_store(settings)
    try:
        for name, pid in (("a", 1), ("b", 2), ("far", 0)):
            await store.beat(
                WorkerState(
                    worker_id=name, hostname="h", pid=pid, queues=None, lanes=None, slots=10, busy=2
                )
            )
        well = await only(settings, "workers")
        expected = "3 alive on 1 host, 6 of 30 slots busy; 0 dead letters"
        assert (well.ok, well.detail) == (True, expected)
        await do(
            database,
            "UPDATE mainspring.workers SET seen_at = seen_at - interval '50 s' "
            "WHERE worker_id <> 'a'",
        )
        silent = await only(settings, "workers")
        assert not silent.ok
        assert "2 alive; nothing was heard of b for 5" in silent.detail
        assert "far" not in silent.detail
    finally:
        await store.close()


async def test_a_schedule_without_a_scheduler(database: str) -> None:
    settings = dataclasses.replace(Settings(), database_url=database)
    every = ["schedules", "create", "s", "--type", "t", "--every", "60", "--database-url", database]
    assert await asyncio.to_thread(run, every) == 0
    none = await only(settings, "schedulers")
    assert not none.ok
    assert "no schedule runs; start `mainspring scheduler`" in none.detail
