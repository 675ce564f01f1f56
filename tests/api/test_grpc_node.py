"""The worker in JavaScript of the examples, against a real server."""

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from api.rpc import Client, Rpc, rpc_started
from fixtures.missing import skip_or_fail
from mainspring.api._generated import tasks_pb2

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "node-worker"
DONE = tasks_pb2.TASK_STATUS_COMPLETED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def directory() -> Path:
    return installed()


def installed() -> Path:
    """The example with its dependencies, installed once for each lock in the checkout."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            skip_or_fail(f"{program} is not installed")
    lock = (EXAMPLE / "package-lock.json").read_bytes()
    target = ROOT / ".cache" / f"node-worker-{hashlib.sha256(lock).hexdigest()[:12]}"
    target.mkdir(parents=True, exist_ok=True)
    for path in EXAMPLE.iterdir():
        if path.is_file():
            shutil.copy(path, target)
    if not (target / "node_modules" / ".package-lock.json").exists():
        npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(npm, cwd=target, capture_output=True, text=True, check=False)
        if done.returncode:
            skip_or_fail(f"npm cannot install the dependencies: {done.stderr[-500:]}")
    return target


@pytest.fixture
async def rpc(database: str) -> AsyncIterator[Rpc]:
    async with rpc_started(database) as running:
        yield running


@asynccontextmanager
async def node(
    directory: Path, rpc: Rpc, name: str, **environment: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker process that is ready."""
    process = await asyncio.create_subprocess_exec(
        "node",
        "main.mjs",
        cwd=directory,
        env={
            "PATH": os.environ["PATH"],
            "MAINSPRING_PROTOS": str(ROOT / "proto"),
            "MAINSPRING_GRPC": rpc.target,
            "MAINSPRING_KEY": await rpc.api.key(),
            "WORKER_ID": name,
            **environment,
        },
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(30):
            line = await process.stderr.readline()
        assert b"working on greet, count" in line, line
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def follow(client: Client, task_id: str, *until: str) -> list[str]:
    """Return the names of the events of a task up to one of these."""
    names = []
    stream = client.stream("TaskService.Watch", task_id=task_id)
    async with asyncio.timeout(40):
        async for event in stream:
            names.append(event.name)
            if event.name in until:
                break
    stream.cancel()
    return names


async def submit(client: Client, task_type: str, payload: str, **more: object) -> str:
    made = await client.call("TaskService.Submit", task_type=task_type, payload=payload, **more)
    task_id: str = made.task_id
    return task_id


async def test_a_worker_in_javascript_runs_fails_and_cancels(directory: Path, rpc: Rpc) -> None:
    async with rpc.client() as client, node(directory, rpc, "one", DRAIN_SECONDS="2") as process:
        greeted = await submit(client, "greet", '{"name": "Ada"}')
        nobody = await submit(client, "greet", "{}", max_retries=0)
        late = await submit(client, "count", '{"to": 600}', timeout=0.3, max_retries=0)
        long = await submit(client, "count", '{"to": 600}')
        assert (await follow(client, greeted, "completed"))[-1] == "completed"
        task = await client.call("TaskService.Get", task_id=greeted)
        assert task.result == '{"greeting":"Hello, Ada!"}'
        assert (await follow(client, nobody, "failed"))[-1] == "failed"
        letter = await client.call("DeadLetterService.Get", task_id=nobody)
        assert letter.attempts[0].error == "TypeError: there is no name to greet"
        assert (await follow(client, late, "failed"))[-1] == "failed"
        letter = await client.call("DeadLetterService.Get", task_id=late)
        assert letter.attempts[0].kind == tasks_pb2.FAILURE_KIND_TIMEOUT
        await follow(client, long, "running")
        await client.call("TaskService.Cancel", task_id=long)
        assert (await follow(client, long, "cancelled"))[-1] == "cancelled"
        task = await client.call("TaskService.Get", task_id=long)
        assert "counted" in task.progress
        # A drain lets a short task end, and hands a long one back.
        short = await submit(client, "count", '{"to": 5}')
        endless = await submit(client, "count", '{"to": 6000}')
        await follow(client, short, "running")
        await follow(client, endless, "running")
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            assert await process.wait() == 0
        assert (await client.call("TaskService.Get", task_id=short)).status == DONE
        task = await client.call("TaskService.Get", task_id=endless)
        assert (task.status, task.attempt_count) == (tasks_pb2.TASK_STATUS_PENDING, 0)


@pytest.mark.fault
async def test_a_killed_worker_in_javascript_costs_one_lease(directory: Path, rpc: Rpc) -> None:
    async with (
        rpc.client() as client,
        node(directory, rpc, "victim", LEASE_SECONDS="2") as victim,
    ):
        task_id = await submit(client, "count", '{"to": 15}')
        await follow(client, task_id, "running")
        victim.kill()
        await victim.wait()
        async with node(directory, rpc, "heir", LEASE_SECONDS="2"):
            async with asyncio.timeout(20):
                while not await rpc.api.store.rescue(10):  # noqa: ASYNC110 - only time makes it so
                    await asyncio.sleep(0.02)
            assert (await follow(client, task_id, "completed"))[-1] == "completed"
        task = await client.call("TaskService.Get", task_id=task_id)
        assert (task.attempt_count, task.worker_id.rpartition(":")[2]) == (2, "heir")
