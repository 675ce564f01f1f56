"""Load shedding, metrics, and a database that goes away and comes back."""

import asyncio
import time
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from api.conftest import Api, started
from fixtures.postgres import PostgresServer
from integration.postgres.proxy import proxy_to
from mainspring.adapters.system import SystemClock
from mainspring.core.shedding import Shedder, Threshold, parse_thresholds
from mainspring.domain.errors import InvalidValue, Overloaded
from mainspring.domain.priority import Level
from mainspring.ports.store import Backlog, ClaimRequest


class Reader:
    """A backlog as a test wants it."""

    def __init__(self) -> None:
        self.due: list[Backlog] = []

    async def queue_names(self) -> list[str]:
        return ["default"]

    async def backlogs(self, bound: int) -> list[Backlog]:
        del bound
        return self.due


async def decided(shedder: Shedder) -> set[Level]:
    await shedder.sample()
    return set(shedder.refused)


async def test_low_goes_first_then_normal_and_critical_never() -> None:
    reader = Reader()
    limits = {Level.LOW: Threshold(100, 60), Level.NORMAL: Threshold(1000, 600)}
    shedder = Shedder(reader, SystemClock(), limits)  # type: ignore[arg-type]
    assert await decided(shedder) == set()
    reader.due = [Backlog("default", 8, 101, 1.0)]
    assert await decided(shedder) == {Level.LOW, Level.BATCH}
    # It stays turned away until it is well below its threshold.
    reader.due = [Backlog("default", 8, 90, 1.0)]
    assert await decided(shedder) == {Level.LOW, Level.BATCH}
    reader.due = [Backlog("default", 8, 79, 1.0)]
    assert await decided(shedder) == set()
    reader.due = [Backlog("default", 5, 10, 601.0), Backlog("default", 0, 10**6, 10**6)]
    assert await decided(shedder) == {Level.NORMAL, Level.LOW, Level.BATCH}
    shedder.admit(0)
    shedder.admit(2)
    with pytest.raises(Overloaded):
        shedder.admit(5)


def test_thresholds_are_read_and_critical_cannot_be_named() -> None:
    assert parse_thresholds("low=10/60, normal=20/1.5") == {
        Level.LOW: Threshold(10, 60.0),
        Level.NORMAL: Threshold(20, 1.5),
    }
    for wrong in ("low", "low=1", "low=x/1", "critical=1/1", "none=1/1"):
        with pytest.raises(InvalidValue):
            parse_thresholds(wrong)


async def test_the_api_turns_low_away_and_says_so(database: str) -> None:
    async with started(database, shed_thresholds="low=2/3600") as api, await api.client() as client:
        await client.post(
            "/v1/tasks/batch", json={"tasks": [{"task_type": "t", "priority": 8}] * 5}
        )
        async with asyncio.timeout(20):
            while True:
                low = await client.post("/v1/tasks", json={"task_type": "t", "priority": 8})
                if low.status_code == 503:
                    break
        assert low.json()["code"] == "overloaded"
        assert int(low.headers["retry-after"]) >= 1
        for priority, status in ((10, 503), (5, 201), (0, 201)):
            sent = {"task_type": "t", "priority": priority}
            assert (await client.post("/v1/tasks", json=sent)).status_code == status
        stats = (await client.get("/v1/stats")).json()
        levels = {level["level"]: level for level in stats["levels"]}
        assert levels["low"]["accepted"] is False
        assert "due" in levels["low"]["reason"]
        assert levels["normal"]["accepted"] is True
        assert stats["turned_away"]["low"] >= 1


async def test_metrics_of_the_contract(client: httpx.AsyncClient, api: Api) -> None:
    await client.post("/v1/tasks/batch", json={"tasks": [{"task_type": "t", "queue": "q"}] * 3})
    claim = {"worker_id": "w", "task_types": ["t"]}

    async def values() -> dict[str, float]:
        text = (await client.get("/metrics")).text
        return {
            f"{sample.name}{sorted(sample.labels.values())}": sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    # The first look sets the time from which ends are counted.
    async with asyncio.timeout(20):
        while "mainspring_queue_depth['normal', 'q']" not in await values():  # noqa: ASYNC110 - it is sampled now and then
            await asyncio.sleep(0.05)
    lease = (await client.post("/v1/leases", json=claim)).json()["leases"][0]
    named = {
        "worker_id": "w",
        "task_id": lease["task_id"],
        "fencing_token": lease["fencing_token"],
    }
    await client.post("/v1/leases/complete", json=named)
    async with asyncio.timeout(40):
        while "mainspring_tasks_total['completed', 't']" not in (seen := await values()):  # noqa: ASYNC110 - it is sampled now and then
            await asyncio.sleep(0.05)
    assert seen["mainspring_tasks_total['completed', 't']"] == 1
    assert seen["mainspring_task_lateness_seconds_count[]"] == 1
    assert seen["mainspring_task_duration_seconds_count[]"] == 1
    assert seen["mainspring_dead_letters[]"] == 0
    assert seen["mainspring_leases_expired_total[]"] == 0
    assert seen["mainspring_workers['active']"] == 1
    assert "mainspring_worker_slots['free']" in seen
    assert "mainspring_oldest_task_age_seconds['normal', 'q']" in seen
    request = ClaimRequest(worker_id="x", limit=1, lease_seconds=0.0, task_types=("t",))
    assert len((await api.store.claim(request)).leases) == 1
    assert len(await api.store.rescue(10)) == 1
    assert await api.store.leases_expired() == 1


@pytest.mark.fault
async def test_an_outage_is_answered_in_time_and_survived(
    database: str, postgres_server: PostgresServer
) -> None:
    name = database.split("@/")[1].partition("?")[0]
    async with (
        proxy_to(postgres_server.tcp_dsn(name)) as (proxy, dsn),
        started(dsn) as api,
        await api.client() as client,
    ):
        sent = {"task_type": "t"}
        made = (await client.post("/v1/tasks", json=sent)).json()["task_id"]
        proxy.swallow_requests = proxy.swallow_replies = True

        async def refused(method: str, path: str, body: Any = None) -> None:
            began = time.monotonic()
            answer = await client.request(method, path, json=body)
            assert (answer.status_code, path) == (503, path)
            assert time.monotonic() - began < 5.5, path
            assert "retry-after" in answer.headers

        await asyncio.gather(
            refused("GET", f"/v1/tasks/{made}"),
            refused("GET", "/v1/queues"),
            refused("POST", f"/v1/tasks/{made}/cancel", {}),
            refused("POST", "/v1/tasks", sent),
        )
        ready = await client.get("/health/ready")
        assert (ready.status_code, set(ready.json()["parts"])) == (503, {"store"})
        assert (await client.get("/health/live")).status_code == 200
        # The server comes back, and its old connections are gone.
        proxy.swallow_requests = proxy.swallow_replies = False
        await proxy.close()
        async with asyncio.timeout(5):
            while (await client.post("/v1/tasks", json=sent)).status_code != 201:
                pass
        assert (await client.get("/health/ready")).status_code == 200
