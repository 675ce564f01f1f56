"""Measures the API: single submissions over 32 connections, and batches.

    python bench/api.py [--seconds 5] [--connections 32] [--batch 1000] [--rate 1150]

Starts PostgreSQL (fsync on), one API process and one client process. Prints rates, latencies and
the processor time that the API process took for each request: as many as it can, and at a given
rate at random times, whether it keeps up or not.
"""

import argparse
import asyncio
import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import uvloop

from mainspring.adapters.postgres.embedded import EmbeddedPostgres
from mainspring.adapters.postgres.migrate import migrate
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import open_store
from mainspring.core.access import ID_BYTES, SECRET_BYTES, new_key
from mainspring.ports.access import Scope


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def request(path: str, key: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def ask(connection: Connection, data: bytes) -> None:
    reader, writer = connection
    writer.write(data)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith((b"HTTP/1.1 201", b"HTTP/1.1 207")):
        raise SystemExit(head.decode())
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    await reader.readexactly(length)


async def closed_loop(connections: list[Connection], data: bytes, until: float) -> list[float]:
    """As fast as they are answered: each connection asks again at once."""
    latencies: list[float] = []

    async def repeat(connection: Connection) -> None:
        while (began := time.perf_counter()) < until:
            await ask(connection, data)
            latencies.append(time.perf_counter() - began)

    await asyncio.gather(*map(repeat, connections))
    return latencies


async def open_loop(
    connections: list[Connection], data: bytes, until: float, rate: float
) -> tuple[list[float], list[float]]:
    """At random times, whether or not the earlier ones were answered; a latency counts from when
    a request was due, so also while none of the connections is free. Returns these, and by how much
    this process itself was late.
    """
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for connection in connections:
        free.put_nowait(connection)
    chance = random.Random(1)
    latencies: list[float] = []
    lateness: list[float] = []

    async def once(due: float) -> None:
        connection = await free.get()
        await ask(connection, data)
        latencies.append(time.perf_counter() - due)
        free.put_nowait(connection)

    due = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        while (due := due + chance.expovariate(rate)) < until:
            early = due - time.perf_counter()
            if early > 0:
                await asyncio.sleep(early)
            lateness.append(max(0.0, time.perf_counter() - due))
            group.create_task(once(due))
    return latencies, lateness


def milliseconds(values: list[float], share: float) -> str:
    return f"{sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1e3:.1f} ms"


async def load(port: int, key: str, options: argparse.Namespace) -> None:
    task = {"task_type": "send_email", "payload": {"user_id": 123, "email": "u@example.com"}}
    compact = {"separators": (",", ":")}
    one = request("/v1/tasks", key, json.dumps(task, **compact).encode())
    many = json.dumps({"tasks": [task] * options.batch}, **compact).encode()
    api, client = psutil.Process(options.pid), psutil.Process()
    for name, data, count, size, rate in (
        ("warm-up", one, options.connections, 1, 0),
        ("single", one, options.connections, 1, 0),
        (f"single at {options.rate:,}/s", one, options.connections, 1, options.rate),
        ("batch", request("/v1/tasks/batch", key, many), 2, options.batch, 0),
    ):
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
        before, own = api.cpu_times(), client.cpu_times()
        began = time.perf_counter()
        until = began + (1.0 if name == "warm-up" else options.seconds)
        lateness = [0.0]
        if rate:
            latencies, lateness = await open_loop(connections, data, until, rate)
        else:
            latencies = await closed_loop(connections, data, until)
        took = time.perf_counter() - began
        cpu, mine = spent(api, before), spent(client, own)
        tasks = len(latencies) * size
        print(
            f"{name}: {tasks / took:,.0f} tasks/s, p50 {milliseconds(latencies, 0.5)}, "
            f"p99 {milliseconds(latencies, 0.99)}, most {milliseconds(latencies, 1.0)}, "
            f"API processor {cpu / tasks * 1e6:.0f} us a task ({cpu / took:.0%} of a core, the "
            f"client {mine / took:.0%} and late by {milliseconds(lateness, 0.99)} at p99)",
            flush=True,
        )
        for _, writer in connections:
            writer.close()


def spent(process: psutil.Process, before: Any) -> float:
    """Return the processor seconds that a process took since."""
    after = process.cpu_times()
    seconds: float = after.user + after.system - before.user - before.system
    return seconds


async def make_key(dsn: str) -> str:
    await migrate(dsn)
    store = await open_store(PoolOptions(dsn=dsn))
    key, record = new_key(
        "bench", secrets.token_bytes(ID_BYTES + SECRET_BYTES), scopes=(Scope.SUBMIT, Scope.READ)
    )
    await store.add_key(record)
    await store.close()
    return key


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=1150)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedPostgres(Path(folder))
        server.start_blocking()
        try:
            key = asyncio.run(make_key(server.dsn))
            port = free_port()
            api = subprocess.Popen(
                [
                    *(sys.executable, "-m", "mainspring", "api"),
                    *("--port", str(port), "--grpc-port", "-1"),
                ],
                env={**os.environ, "MAINSPRING_DATABASE_URL": server.dsn},
                stderr=subprocess.PIPE,
                text=True,
            )
            assert api.stderr is not None
            while "ready" not in api.stderr.readline():
                pass
            options.pid = api.pid
            uvloop.run(load(port, key, options))
            api.send_signal(signal.SIGTERM)
            api.wait()
        finally:
            server.stop_blocking()


if __name__ == "__main__":
    main()
