"""Starts and stops the real program as processes, on a directory that is thrown away."""

import asyncio
import contextlib
import dataclasses
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from mainspring.config import Settings, child_environment
from mainspring.domain.errors import EmbeddedServerError, SetupError
from mainspring.wiring import state_file
from mainspring.wiring.children import drain_with_parent

START_SECONDS: Final = 100.0
STOP_SECONDS: Final = 20.0
_LINES_KEPT: Final = 50


class Program:
    """One process of `mainspring`, with the last lines that it said."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.said: deque[str] = deque(maxlen=_LINES_KEPT)
        self._ready = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    async def ready(self, word: str) -> None:
        """Wait until the program says a line that begins with this word."""
        async with asyncio.timeout(START_SECONDS):
            while not any(line.startswith(word) for line in self.said):
                if self._reader.done():
                    last = self.said[-1] if self.said else "nothing"
                    raise SetupError(f"mainspring ended before it was ready and said: {last}")
                self._ready.clear()
                await self._ready.wait()

    async def stop(self) -> int:
        """Let it drain and return its exit status; end it if that takes too long."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                return await self.process.wait()
        except TimeoutError:
            await self.kill()
            return -signal.SIGKILL
        finally:
            await self._reader

    async def kill(self) -> None:
        """End it as `kill -9` does."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.said.append(line.decode(errors="replace").rstrip())
            self._ready.set()
        self._ready.set()


async def start_program(settings: Settings, *arguments: str) -> Program:
    """Start `mainspring` with these arguments and settings."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "mainspring",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=PIPE,
        env=child_environment(settings),
        preexec_fn=drain_with_parent(),
    )
    return Program(process)


@contextlib.asynccontextmanager
async def throw_away_installation(
    settings: Settings, *arguments: str
) -> AsyncIterator[tuple[Settings, Program]]:
    """Run `mainspring up` on a directory of its own and yield its settings, with its database.

    Directory and processes are gone at the end, whatever ends it.
    """
    directory = Path(tempfile.mkdtemp(prefix="mainspring-"))
    program: Program | None = None
    try:
        # Whatever else runs on this machine may have the usual ports.
        own = dataclasses.replace(
            settings, data_dir=directory, database_url="", port=0, grpc_port=-1
        )
        program = await start_program(own, "up", *arguments)
        await program.ready("ready")
        running = state_file.read(directory)
        if running is None:
            raise EmbeddedServerError("mainspring up is ready but its database cannot be found")
        yield dataclasses.replace(own, database_url=running.database_url), program
    finally:
        if program is not None:
            await asyncio.shield(program.stop())
        shutil.rmtree(directory, ignore_errors=True)
