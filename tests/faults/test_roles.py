"""Each role says when it is ready, when it is not any more, and drains when it is told to end."""

import asyncio
import re
import shlex
import signal
import sys
from typing import Any

import httpx
import pytest

from faults.stage import Program, Stage, eventually
from fixtures.postgres import PostgresServer
from integration.postgres.proxy import proxy_to
from mainspring import Mainspring

pytestmark = [pytest.mark.fault, pytest.mark.postgres]


async def health_url(program: Program) -> str:
    """The address that it says it can be asked at."""
    await program.says("/health/ready")
    found = re.search(r"health: (http://\S+)/health/ready", program.said)
    assert found is not None
    return f"{found[1]}/health"


async def told(client: httpx.AsyncClient, url: str) -> tuple[int, dict[str, str]]:
    answer = await client.get(f"{url}/ready")
    parts: dict[str, str] = answer.json()["parts"]
    return answer.status_code, parts


async def until_told(client: httpx.AsyncClient, url: str, wanted: Any) -> None:
    async with asyncio.timeout(20):
        while await told(client, url) != wanted:  # noqa: ASYNC110 - another process says it
            await asyncio.sleep(0.02)


async def test_workers_and_schedulers_say_how_they_are(
    stage: Stage, app: Mainspring, postgres_server: PostgresServer
) -> None:
    name = stage.database_url.partition("?")[0].rpartition("/")[2]
    async with proxy_to(postgres_server.tcp_dsn(name)) as (proxy, url), httpx.AsyncClient() as http:
        through = {"database_url": url, "health_port": 0}
        scheduler = stage.start("scheduler", **through)
        worker = stage.start("worker", "--app", "faults.handlers:app", processes=1, **through)
        at = {"scheduler": await health_url(scheduler), "worker": await health_url(worker)}
        for role, place in at.items():
            await until_told(http, place, (200, {role: "ok", "store": "ok"}))

        # Alive, and of no use: nobody restarts it for what is wrong elsewhere.
        proxy.swallow_requests = True
        assert await told(http, at["worker"]) == (
            503,
            {"worker": "ok", "store": "store_unavailable"},
        )
        assert (await http.get(f"{at['worker']}/live")).status_code == 200
        proxy.swallow_requests = False
        await until_told(http, at["worker"], (200, {"worker": "ok", "store": "ok"}))

        await stage.submit(app, 1, "linger", gate=str(stage.gate))
        await stage.happens("start", 1)
        worker.send(signal.SIGTERM)
        await until_told(http, at["worker"], (503, {"worker": "draining", "store": "ok"}))
        stage.open_gate()
        assert await worker.ended() == 0, worker.said
        await stage.settled()
        scheduler.send(signal.SIGTERM)
        assert await scheduler.ended() == 0, scheduler.said
        assert "and leaves" in scheduler.said


async def test_a_worker_that_still_waits_for_its_database_ends_when_it_is_told(
    stage: Stage, postgres_server: PostgresServer
) -> None:
    name = stage.database_url.partition("?")[0].rpartition("/")[2]
    async with proxy_to(postgres_server.tcp_dsn(name)) as (proxy, url):
        proxy.swallow_statements = True
        worker = stage.start_worker(database_url=url)
        await proxy.swallowed.wait()
        worker.send(signal.SIGTERM)
        assert await worker.ended() == 0, worker.said


async def test_a_worker_without_log_and_terminal_finishes_what_runs(
    stage: Stage, app: Mainspring
) -> None:
    code = "from mainspring.cli import main; main()"
    command = shlex.join([sys.executable, "-c", code, "worker", "--app", "faults.handlers:app"])
    # What is written there finds no room.
    worker = stage.start_program(["sh", "-c", f"exec {command} 2>/dev/full"], "worker")
    await stage.submit(app, 1, "linger", gate=str(stage.gate))
    await stage.happens("start", 1)
    worker.send(signal.SIGHUP)
    stage.open_gate()
    assert await worker.ended() == 0, worker.said
    await stage.settled()


async def test_an_api_server_that_is_told_to_end_answers_what_it_was_asked(stage: Stage) -> None:
    server = stage.start("api", auth=False, grpc_port=-1)
    await server.says("ready")
    found = re.search(r"API: (http://\S+)", server.said)
    assert found is not None
    async with httpx.AsyncClient(base_url=found[1], timeout=20) as http:
        assert (await http.get("/health/ready")).status_code == 200
        wanted = {"worker_id": "far", "task_types": ["none"], "labels": ["gpu"], "wait_seconds": 60}
        waiting = asyncio.create_task(http.post("/v1/leases", json=wanted))
        # Who offers labels is in the register while it waits.
        async with asyncio.timeout(20):
            registered = "SELECT count(*) FROM mainspring.workers"
            while not await stage.ask(registered):  # noqa: ASYNC110 - another process does it
                await asyncio.sleep(0.02)
        server.send(signal.SIGTERM)
        answer = await waiting
        assert (answer.status_code, answer.json()) == (200, {"leases": []}), answer.text
    await eventually(lambda: server.process.poll() is not None, "the end of the API server")
    assert server.process.returncode == 0, server.said
