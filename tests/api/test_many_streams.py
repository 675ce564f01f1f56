"""Thousands of silent streams on one API process: little memory each, no delay, a clean end."""

import asyncio
import os
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psutil
import pytest

from fixtures.postgres import free_port
from mainspring.config import Settings
from mainspring.core.access import ID_BYTES, SECRET_BYTES, new_key
from mainspring.ports.access import Scope
from mainspring.wiring.store import open_store

STREAMS = 2000
BYTES_PER_STREAM_MAX = 25_000
ANSWER_SECONDS_MAX = 0.1
CLIENT = Path(__file__).with_name("streams_client.py")

Process = asyncio.subprocess.Process


async def spawned(*arguments: str, **environment: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def line_with(stream: asyncio.StreamReader | None, word: bytes) -> bytes:
    assert stream is not None
    while line := await stream.readline():
        if word in line:
            return line
    raise AssertionError(word)


@pytest.fixture
async def key(database: str) -> str:
    store = await open_store(Settings(database_url=database))
    text, record = new_key(
        "test", secrets.token_bytes(ID_BYTES + SECRET_BYTES), scopes=(Scope.READ, Scope.SUBMIT)
    )
    await store.add_key(record)
    await store.close()
    return text


@pytest.fixture
async def server(database: str) -> AsyncIterator[tuple[Process, int]]:
    port = free_port()
    process = await spawned(
        "-m",
        "mainspring",
        "api",
        "--port",
        str(port),
        MAINSPRING_DATABASE_URL=database,
        MAINSPRING_GRPC_PORT="-1",
    )
    await line_with(process.stderr, b"ready")
    yield process, port
    if process.returncode is None:
        process.kill()
        await process.communicate()


async def usual_seconds(client: httpx.AsyncClient, task_id: str) -> float:
    """The median of some answers: one that meets a full processor says nothing of the server."""
    took = []
    for _ in range(15):
        began = time.monotonic()
        assert (await client.get(f"/v1/tasks/{task_id}")).status_code == 200
        took.append(time.monotonic() - began)
    return sorted(took)[len(took) // 2]


@pytest.mark.slow
async def test_thousands_of_silent_streams(key: str, server: tuple[Process, int]) -> None:
    process, port = server
    headers = {"authorization": f"Bearer {key}"}
    used = psutil.Process(process.pid).memory_info
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False
    ) as client:
        made = await client.post("/v1/tasks", json={"task_type": "t", "delay": 900})
        task_id = made.json()["task_id"]
        await usual_seconds(client, task_id)
        before = used().rss
        holder = await spawned(str(CLIENT), str(port), key, task_id, str(STREAMS))
        try:
            async with asyncio.timeout(60):
                await line_with(holder.stdout, b"open %d" % STREAMS)
                each = (used().rss - before) / STREAMS
                print(f"{each:,.0f} bytes a stream")
                assert each < BYTES_PER_STREAM_MAX
                assert await usual_seconds(client, task_id) < ANSWER_SECONDS_MAX
                process.send_signal(signal.SIGTERM)
                await line_with(holder.stdout, b"closed %d" % STREAMS)
                _, errors = await process.communicate()
        finally:
            if holder.returncode is None:
                holder.kill()
            await holder.communicate()
    assert process.returncode == 0
    assert b"Traceback" not in errors
