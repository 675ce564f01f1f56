"""Measures silent event streams: memory for each, and how the API answers beside them.

    python bench/streams.py [--streams 10000] [--clients 2]

Starts PostgreSQL, one API process and the client processes, which open the streams and hold them.
"""

import argparse
import asyncio
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import psutil

from api import free_port, make_key
from mainspring.adapters.postgres.embedded import EmbeddedPostgres

CLIENT = Path(__file__).parent.parent / "tests" / "api" / "streams_client.py"


def measure(api: subprocess.Popen[str], port: int, key: str, options: argparse.Namespace) -> None:
    process = psutil.Process(api.pid)
    client = httpx.Client(
        base_url=f"http://127.0.0.1:{port}",
        headers={"authorization": f"Bearer {key}"},
        trust_env=False,
        timeout=30,
    )
    made = client.post("/v1/tasks", json={"task_type": "t", "delay": 9000})
    task_id = made.json()["task_id"]
    before = process.memory_info().rss
    began = time.perf_counter()
    share = options.streams // options.clients
    holders = [
        subprocess.Popen(
            [sys.executable, str(CLIENT), str(port), key, task_id, str(share)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(options.clients)
    ]
    outputs = [holder.stdout for holder in holders if holder.stdout is not None]
    for output in outputs:
        output.readline()
    opened = time.perf_counter() - began
    used = process.memory_info().rss - before
    count = share * options.clients
    print(
        f"{count:,} streams open in {opened:.1f} s: {used / 1e6:.0f} MB, {used / count:,.0f} each"
    )
    latencies = []
    for _ in range(100):
        asked = time.perf_counter()
        client.get(f"/v1/tasks/{task_id}").raise_for_status()
        latencies.append(time.perf_counter() - asked)
    latencies.sort()
    print(f"a look beside them: p50 {latencies[50] * 1e3:.1f} ms, p99 {latencies[98] * 1e3:.1f} ms")
    cpu = sum(process.cpu_times()[:2])
    time.sleep(5)
    print(f"idle: {(sum(process.cpu_times()[:2]) - cpu) / 5:.1%} of a core")
    ended = time.perf_counter()
    api.send_signal(signal.SIGTERM)
    for output in outputs:
        output.readline()
    print(f"closed in {time.perf_counter() - ended:.1f} s, exit status {api.wait()}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=2)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedPostgres(Path(folder))
        server.start_blocking()
        try:
            key = asyncio.run(make_key(server.dsn))
            port = free_port()
            api = subprocess.Popen(
                [sys.executable, "-m", "mainspring", "api", "--port", str(port)],
                env={
                    **os.environ,
                    "MAINSPRING_DATABASE_URL": server.dsn,
                    "MAINSPRING_GRPC_PORT": "-1",
                },
                stderr=subprocess.PIPE,
                text=True,
            )
            assert api.stderr is not None
            while "ready" not in api.stderr.readline():
                if api.poll() is not None:
                    raise SystemExit("the API did not start")
            measure(api, port, key, options)
        finally:
            server.stop_blocking()


if __name__ == "__main__":
    main()
