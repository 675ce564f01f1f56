"""One process each, with a log of its own."""

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tools.cluster.binaries import etcd_binary, free_port, valkey_binary
from tools.cluster.http import Broken, Http

from mainspring.adapters.postgres.embedded import EmbeddedPostgres
from mainspring.domain.errors import EmbeddedServerError
from mainspring.wiring.children import drain_with_parent

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
STOP_SECONDS = 40.0
LOOK_SECONDS = 0.05


class NotStarted(Exception):
    """A program ended, or was not ready in time."""


class Part(Protocol):
    """Anything that runs for as long as the cluster does."""

    name: str
    log: Path

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        ...

    @property
    def place(self) -> str:
        """Where it can be reached."""
        ...

    async def start(self) -> None:
        """Start it and return when it is ready."""
        ...

    async def stop(self) -> int:
        """Let it end in its own time and return its exit status."""
        ...

    async def kill(self) -> None:
        """End it as `kill -9` does."""
        ...


class Program:
    """A process that is ready as soon as `is_ready` says so."""

    def __init__(
        self, name: str, command: list[str], environment: Mapping[str, str], log: Path
    ) -> None:
        self.name = name
        self.log = log
        self.command = command
        self.environment = dict(environment)
        self._process: asyncio.subprocess.Process | None = None
        self._said_before = 0

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    @property
    def status(self) -> int | None:
        """How it ended, if it has."""
        return None if self._process is None else self._process.returncode

    @property
    def place(self) -> str:
        """Where it can be reached."""
        return ""

    def said(self) -> str:
        """What it wrote since its last start."""
        with suppress(FileNotFoundError):
            return self.log.read_bytes()[self._said_before :].decode(errors="replace")
        return ""

    async def start(self) -> None:
        """Start it and return when it is ready."""
        self._said_before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd=ROOT,
                # Ctrl-C in a terminal is for the cluster, which ends its parts in their order.
                start_new_session=True,
                preexec_fn=drain_with_parent(),
            )
        end = time.monotonic() + START_SECONDS
        while not await self.is_ready():
            if self.pid is None or time.monotonic() > end:
                raise NotStarted(f"{self.name} is not ready: {self._last_words()}; see {self.log}")
            await asyncio.sleep(LOOK_SECONDS)

    async def is_ready(self) -> bool:
        """Whether it does what it is there for."""
        return self.pid is not None

    async def stop(self) -> int:
        """Let it end in its own time and return its exit status."""
        if self._process is None:
            return 0
        if self.pid is not None:
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                return await self._process.wait()
        except TimeoutError:
            await self.kill()
            return -signal.SIGKILL

    async def kill(self) -> None:
        """End it as `kill -9` does."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def _last_words(self) -> str:
        lines = self.said().strip().splitlines()
        return lines[-1] if lines else "it said nothing"


class Role(Program):
    """An API server, a scheduler or a worker; it answers probes."""

    url = ""

    def __init__(self, name: str, environment: Mapping[str, str], log: Path) -> None:
        self.role = name.partition("-")[0]
        self._variable = "MAINSPRING_PORT" if self.role == "api" else "MAINSPRING_HEALTH_PORT"
        command = [sys.executable, "-m", "mainspring", self.role]
        super().__init__(name, command, {self._variable: "0", **environment}, log)

    @property
    def place(self) -> str:
        """Where it can be reached."""
        return self.url if self.role == "api" else f"{self.url}/health/ready"

    async def is_ready(self) -> bool:
        """Whether it says so itself."""
        found = re.search(r"(?:API|health): (http://[\d.]+:(\d+))", self.said())
        if self.pid is None or found is None:
            return False
        self.url = found[1]
        # Who is started again is found where it was.
        self.environment[self._variable] = found[2]
        return await answers(f"{self.url}/health/ready")


class Etcd(Program):
    """One member of etcd."""

    def __init__(self, name: str, data: Path, log: Path) -> None:
        self.client = f"http://127.0.0.1:{free_port()}"
        self.peer = f"http://127.0.0.1:{free_port()}"
        super().__init__(name, [], {}, log)
        self._data = data

    @property
    def place(self) -> str:
        """Where it can be reached."""
        return self.client

    def join(self, members: list["Etcd"]) -> None:
        """Make it one of these."""
        cluster = ",".join(f"{member.name}={member.peer}" for member in members)
        self.command = [
            *(str(etcd_binary()), "--name", self.name, "--data-dir", str(self._data)),
            *("--listen-client-urls", self.client, "--advertise-client-urls", self.client),
            *("--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer),
            *("--initial-cluster", cluster, "--log-level", "warn"),
        ]

    async def is_ready(self) -> bool:
        """Whether it has a leader."""
        return self.pid is not None and await answers(f"{self.client}/health")


class Valkey(Program):
    """Valkey for the ready queue, which needs nothing kept."""

    def __init__(self, name: str, data: Path, log: Path) -> None:
        self.port = free_port()
        command = [
            *(str(valkey_binary()), "--port", str(self.port), "--bind", "127.0.0.1"),
            *("--save", "", "--appendonly", "no", "--dir", str(data)),
            *("--maxmemory-policy", "noeviction"),
        ]
        super().__init__(name, command, {}, log)

    @property
    def place(self) -> str:
        """Where it can be reached."""
        return f"redis://127.0.0.1:{self.port}"

    async def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        try:
            writer.write(b"PING\r\n")
            return (await reader.readline()).startswith(b"+PONG")
        finally:
            writer.close()


class Postgres:
    """A PostgreSQL server."""

    def __init__(self, name: str, data: Path) -> None:
        self.name = name
        self._server = EmbeddedPostgres(data, port=free_port())
        self.log = self._server.log_file

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._server.pid

    @property
    def place(self) -> str:
        """Where it can be reached."""
        return self._server.dsn

    async def start(self) -> None:
        """Start it and return when it is ready."""
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                await self._server.stop()
                await self._server.start()
            except EmbeddedServerError as error:
                # What a killed one left needs a moment to notice that.
                if time.monotonic() > end:
                    raise NotStarted(error.message) from None
                await asyncio.sleep(10 * LOOK_SECONDS)
            else:
                return

    async def stop(self) -> int:
        """Stop it, closing its connections."""
        await self._server.stop()
        return 0

    async def kill(self) -> None:
        """End it as `kill -9` does."""
        if (pid := self.pid) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while self.pid is not None:  # noqa: ASYNC110 - only the kernel knows
            await asyncio.sleep(LOOK_SECONDS)


async def answers(url: str) -> bool:
    """Whether a probe is told that all is well."""
    http = Http()
    try:
        return (await http.ask("GET", url)).is_good
    except Broken:
        return False
    finally:
        await http.close()
