"""The audit: on disk before the answer, complete for submissions, read by its own namespace."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest

from api.conftest import Api, started
from fixtures.postgres import free_port
from mainspring.core.auditing import SUM_SECONDS, AuditTrail
from mainspring.domain.errors import StoreUnavailable
from mainspring.ports.access import AuditRecord, Scope
from manual_clock import ManualClock


async def test_tasks_of_one_moment_share_a_record_that_names_each(api: Api) -> None:
    async with await api.client() as one, await api.client(namespace="acme") as two:
        answers = await asyncio.gather(
            *(client.post("/v1/tasks", json={"task_type": "t"}) for client in (one, two) * 40),
            one.post("/v1/tasks/batch", json={"tasks": [{"task_type": "t"}] * 1500}),
        )
    records = [record for _, record in await api.store.audit(1000)]
    named = [task_id for record in records for task_id in record.task_ids]
    made = [UUID(answer.json()["task_id"]) for answer in answers[:-1]]
    made += [UUID(item["task_id"]) for item in answers[-1].json()["results"]]
    assert sorted(named) == sorted(made)
    assert all(record.count == len(record.task_ids) for record in records)
    theirs = {id_ for record in records if record.namespace == "acme" for id_ in record.task_ids}
    assert theirs == set(made[1:80:2])
    assert {record.action for record in records} == {"task.submit", "task.submit_batch"}


async def test_a_used_key_names_its_task_and_a_conflict_nothing(api: Api) -> None:
    async with await api.client() as client:
        task = {"task_type": "t", "key": "k"}
        first = (await client.post("/v1/tasks", json=task)).json()["task_id"]
        assert (await client.post("/v1/tasks", json=task)).status_code == 200
        assert (await client.post("/v1/tasks", json={**task, "priority": 1})).status_code == 409
    records = [record for _, record in await api.store.audit(10)]
    assert [record.subject for record in records] == [first, first]


@asynccontextmanager
async def process(database: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """A process of its own that serves the API, and can be killed."""
    port = free_port()
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mainspring", "api", "--port", str(port),
        env={**os.environ, "MAINSPRING_DATABASE_URL": database, "MAINSPRING_GRPC_PORT": "-1"},
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert running.stderr is not None
    try:
        while b"ready" not in await running.stderr.readline():
            assert running.returncode is None
        yield f"http://127.0.0.1:{port}", running
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


async def test_a_killed_server_has_recorded_what_it_answered(api: Api, database: str) -> None:
    key = await api.key()
    answered: list[str] = []
    async with process(database) as (url, running):

        async def submit_on(client: httpx.AsyncClient) -> None:
            while True:
                try:
                    answer = await client.post("/v1/tasks", json={"task_type": "t", "delay": 9})
                    task_id = answer.json()["task_id"]
                    answered.append(task_id)
                    await client.post(f"/v1/tasks/{task_id}/cancel")
                    answered.append(task_id)
                except httpx.TransportError:
                    return
                if len(answered) > 150:
                    with suppress(ProcessLookupError):  # Another call was first.
                        running.send_signal(signal.SIGKILL)

        headers = {"authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as client:
            await asyncio.gather(*(submit_on(client) for _ in range(16)))
    records = [record for _, record in await api.store.audit(10_000)]
    submitted = {str(task_id) for record in records for task_id in record.task_ids}
    cancelled = {record.subject for record in records if record.action == "task.cancel"}
    assert len(answered) > 150
    assert set(answered) <= submitted
    assert {task_id for task_id in answered if answered.count(task_id) == 2} <= cancelled
    connection = await asyncpg.connect(database)
    try:
        stored = await connection.fetch(
            "SELECT id FROM mainspring.tasks UNION ALL SELECT id FROM mainspring.task_history"
        )
    finally:
        await connection.close()
    assert {str(row["id"]) for row in stored} == submitted, "no task without a record, nor more"


async def test_each_namespace_reads_its_own_page_by_page(api: Api) -> None:
    async with await api.client() as client, await api.client(namespace="acme") as acme:
        for queue in ("a", "b", "c"):
            await client.post(f"/v1/queues/{queue}/pause")
            await acme.post(f"/v1/queues/{queue}-acme/pause")
        subjects, query = [], {"limit": "2"}
        while True:
            page = (await client.get("/v1/audit", params=query)).json()
            subjects += [record["subject"] for record in page["records"]]
            if page["cursor"] is None:
                break
            query["cursor"] = page["cursor"]
        assert subjects == ["c", "b", "a"]
        record = page["records"][0]
        assert (record["action"], record["count"], record["address"]) == (
            "queue.pause",
            1,
            "127.0.0.1",
        )
        assert "namespace" not in record
        for query in ({"since": "2100-01-01T00:00:00Z"}, {"actor": "oidc:ada"}):
            assert (await client.get("/v1/audit", params=query)).json()["records"] == []
        found = (await client.get("/v1/audit", params={"actor": record["actor"]})).json()
        assert len(found["records"]) == 3
        assert (await client.get("/v1/audit", params={"cursor": "x"})).status_code == 422
    async with await api.client(Scope.ADMIN, queues=("a",)) as some:
        assert (await some.get("/v1/audit")).status_code == 403


async def test_what_workers_do_is_summed(database: str) -> None:
    async with started(database) as api, await api.client() as client:
        tasks = [{"task_type": "t"}] * 5
        await client.post("/v1/tasks/batch", json={"tasks": tasks})
        claim = {"worker_id": "w", "task_types": ["t"], "limit": 5}
        leases = (await client.post("/v1/leases", json=claim)).json()["leases"]
        held = [{name: lease[name] for name in ("task_id", "fencing_token")} for lease in leases]
        for lease in held:
            await client.post("/v1/leases/complete", json={"worker_id": "w", **lease})
        assert len(await api.store.audit(10)) == 1, "the sums wait"
    connection = await asyncpg.connect(database)
    try:
        rows = await connection.fetch(
            "SELECT action, count, subject FROM mainspring.audit ORDER BY id OFFSET 1"
        )
    finally:
        await connection.close()
    assert [(row["action"], row["count"]) for row in rows] == [
        ("lease.claim", 5),
        ("lease.complete", 5),
    ]
    assert rows[1]["subject"] == f"{held[0]['task_id']} {held[-1]['task_id']}"


class Disk:
    """Takes records, when it works."""

    def __init__(self) -> None:
        self.is_broken = False
        self.commits: list[list[AuditRecord]] = []

    async def record(self, records: list[AuditRecord]) -> None:
        if self.is_broken:
            raise StoreUnavailable("gone")
        self.commits.append(list(records))


def record(subject: str, count: int = 1, action: str = "a") -> AuditRecord:
    return AuditRecord(
        actor="k",
        namespace="n",
        action=action,
        subject=subject,
        address="",
        request_id="",
        count=count,
    )


async def test_records_share_commits_and_outlast_an_outage() -> None:
    disk: Any = Disk()
    clock = ManualClock()
    trail = AuditTrail(disk, clock)
    disk.is_broken = True
    waits = [trail.add(record(str(at))) for at in range(3)]
    await clock.sleeping()
    assert not any(wait.done() for wait in waits)
    disk.is_broken = False
    clock.advance(1)
    await asyncio.gather(*waits)
    assert [[one.subject for one in commit] for commit in disk.commits] == [["0", "1", "2"]]
    for at in range(4):
        trail.count(record(f"t{at}", count=2, action="lease.claim"))
    trail.count(record("nothing", count=0))
    await clock.sleeping()
    clock.advance(SUM_SECONDS)
    await trail.close()
    ((sum_,),) = disk.commits[1:]
    assert (sum_.subject, sum_.count) == ("t0 t3", 8)


async def test_too_many_that_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.core.auditing.WAITING_MAX", 2)
    disk: Any = Disk()
    disk.is_broken = True
    trail = AuditTrail(disk, ManualClock())
    waits = [trail.add(record(str(at))) for at in range(3)]
    assert [wait.done() for wait in waits] == [False, False, True]
    assert "audit could not be written" in str(waits[2].exception())
    assert trail.dropped == 1
    await trail.close()
