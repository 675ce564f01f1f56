"""Measures the API: single submissions over 32 connections, and batches.

    python bench/api.py [--seconds 5] [--connections 32] [--batch 1000]

Starts PostgreSQL (fsync on), one API process and one client process. Prints rates, latencies and
the processor time that the API process took for each request.
"""

import argparse
import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

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


async def connection(
    port: int, data: bytes, until: float, pause: float, latencies: list[float]
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until:
        began = time.perf_counter()
        writer.write(data)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith((b"HTTP/1.1 201", b"HTTP/1.1 207")):
            raise SystemExit(head.decode())
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        took = time.perf_counter() - began
        latencies.append(took)
        if pause:
            await asyncio.sleep(max(0.0, pause - took))
    writer.close()


async def load(port: int, key: str, options: argparse.Namespace) -> None:
    task = {"task_type": "send_email", "payload": {"user_id": 123, "email": "u@example.com"}}
    compact = {"separators": (",", ":")}
    one = request("/v1/tasks", key, json.dumps(task, **compact).encode())
    many = json.dumps({"tasks": [task] * options.batch}, **compact).encode()
    api = psutil.Process(options.pid)
    for name, data, connections, size, rate in (
        ("warm-up", one, options.connections, 1, 0),
        ("single", one, options.connections, 1, 0),
        ("single at 1,150/s", one, options.connections, 1, 1150),
        ("batch", request("/v1/tasks/batch", key, many), 2, options.batch, 0),
    ):
        latencies: list[float] = []
        before = api.cpu_times()
        began = time.perf_counter()
        seconds = 1.0 if name == "warm-up" else options.seconds
        pause = connections / rate if rate else 0.0
        await asyncio.gather(
            *(connection(port, data, began + seconds, pause, latencies) for _ in range(connections))
        )
        took = time.perf_counter() - began
        after = api.cpu_times()
        cpu = after.user + after.system - before.user - before.system
        latencies.sort()
        count = len(latencies) * size
        print(
            f"{name}: {count / took:,.0f} tasks/s, p50 {latencies[len(latencies) // 2] * 1e3:.1f} "
            f"ms, p99 {latencies[int(len(latencies) * 0.99)] * 1e3:.1f} ms, "
            f"API processor {cpu / count * 1e6:.0f} us a task ({cpu / took:.0%} of a core)",
            flush=True,
        )


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
            asyncio.run(load(port, key, options))
            api.send_signal(signal.SIGTERM)
            api.wait()
        finally:
            server.stop_blocking()


if __name__ == "__main__":
    main()
