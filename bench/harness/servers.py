"""A private PostgreSQL and a private Redis (its free twin, Valkey) for the length of a run."""

import asyncio
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

import asyncpg
import psutil
from bench.harness.environments import valkey_binary
from bench.harness.places import RUNS

from mainspring.adapters.postgres.embedded import EmbeddedPostgres

POSTGRES_SETTINGS: Final[Mapping[str, str]] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "max_connections": "300",
    "shared_preload_libraries": "",
}
_READY_SECONDS: Final = 10.0


class Postgres:
    """PostgreSQL on TCP, so that every driver reaches it the same way, with durable commits."""

    def __init__(self, directory: Path, settings: Mapping[str, str] = POSTGRES_SETTINGS) -> None:
        self.directory = directory
        self.settings = {k: v for k, v in settings.items() if v}
        self._server = EmbeddedPostgres(directory, port=free_port(), settings=self.settings)
        self._templates: set[str] = set()

    def __enter__(self) -> Self:
        self._server.start_blocking()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop_blocking()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def version(self) -> str:
        return self._server.version

    @property
    def pid(self) -> int:
        assert self._server.pid is not None
        return self._server.pid

    def dsn(self, database: str) -> str:
        return self._server.dsn.rpartition("/")[0] + f"/{database}"

    def run(self, *statements: str, database: str = "mainspring") -> list[Any]:
        """Run statements, each in a transaction of its own; return the rows of the last."""

        async def work() -> list[Any]:
            connection = await asyncpg.connect(self.dsn(database))
            try:
                rows: list[Any] = []
                for statement in statements:
                    rows = await connection.fetch(statement, timeout=3600)
                return rows
            finally:
                await connection.close()

        return asyncio.run(work())

    def fresh(self, database: str) -> bool:
        """Make the database anew; False when there is no template of it yet, and it is empty."""
        self.run(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        known = database in self._templates
        template = f" TEMPLATE {database}_template" if known else ""
        self.run(f"CREATE DATABASE {database}{template}", "CHECKPOINT")
        return known

    def keep_as_template(self, database: str) -> None:
        """Make every later `fresh` database of this name start as it is now."""
        self.run(
            f"DROP DATABASE IF EXISTS {database}_template WITH (FORCE)",
            f"CREATE DATABASE {database}_template TEMPLATE {database}",
        )
        self._templates.add(database)


class Valkey:
    """Valkey without persistence, or with `appendonly everysec`."""

    def __init__(self, directory: Path, *, append_only: bool = False) -> None:
        self.directory = directory
        self.port = free_port()
        self.append_only = append_only
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [
                *(valkey_binary(), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""),
                *("--dir", self.directory, "--databases", "64"),
                *("--appendonly", "yes" if self.append_only else "no"),
                *("--appendfsync", "everysec"),
            ],
            stdout=subprocess.DEVNULL,
        )
        end = time.monotonic() + _READY_SECONDS
        while time.monotonic() < end:
            with suppress(OSError):
                self.command("PING")
                return self
            time.sleep(0.02)
        raise RuntimeError("Valkey did not start")

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def version(self) -> str:
        for line in self.command("INFO server").splitlines():
            if line.startswith("valkey_version:"):
                return line.partition(":")[2].strip()
        return "unknown"

    def url(self, number: int) -> str:
        return f"redis://127.0.0.1:{self.port}/{number}"

    def fresh(self, number: int) -> None:
        """Empty one of the databases."""
        self.command(f"SELECT {number}", "FLUSHDB SYNC")

    def command(self, *lines: str) -> str:
        """Send inline commands and return the last answer as it comes."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            for line in lines:
                connection.sendall(line.encode() + b"\r\n")
                answer = connection.recv(1 << 16)
        return answer.decode(errors="replace")


class Servers:
    """Both servers of a run, and the processor time that they have used."""

    def __init__(self, postgres: Postgres, valkey: Valkey | None) -> None:
        self.postgres = postgres
        self.valkey = valkey

    def cpu_seconds(self) -> float:
        """Return the seconds of processor time used so far, by both."""
        total = 0.0
        with suppress(psutil.Error):
            master = psutil.Process(self.postgres.pid)
            times = master.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
            for backend in master.children():
                with suppress(psutil.Error):
                    own = backend.cpu_times()
                    total += own.user + own.system
        if self.valkey is not None:
            with suppress(psutil.Error):
                own = psutil.Process(self.valkey.pid).cpu_times()
                total += own.user + own.system
        return total


@contextmanager
def running_servers(name: str, *, with_valkey: bool = True) -> Iterator[Servers]:
    """Start the servers of a run below `bench/.runs` and remove them and their data at the end."""
    place = RUNS / f"{name}-{os.getpid()}"
    place.mkdir(parents=True, exist_ok=True)
    try:
        with Postgres(place / "postgres") as postgres:
            if with_valkey:
                with Valkey(place / "valkey") as valkey:
                    yield Servers(postgres, valkey)
            else:
                yield Servers(postgres, None)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
