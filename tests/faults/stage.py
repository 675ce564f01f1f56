"""What the fault tests share: real processes of an installation, and patience with conditions."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
import psutil

from faults.history import History, Row, read_executions, read_failed, read_lines
from mainspring import Mainspring, Settings

TESTS = Path(__file__).resolve().parents[1]
LEASE_SECONDS = 2.0
HEARTBEAT_SECONDS = 0.5
PATIENCE_SECONDS = 20.0
_LOOK_SECONDS = 0.01

T = TypeVar("T")

# The schema's tables in the one shape that the checker reads.
_DUMP = """
    SELECT id, status, attempt_count, max_retries, fencing_token, created_at, started_at,
        NULL::timestamptz AS completed_at, attempts::text FROM mainspring.tasks
    UNION ALL
    SELECT id, 'failed', attempt_count, max_retries, fencing_token, created_at, started_at,
        completed_at, attempts::text FROM mainspring.dead_letters
    UNION ALL
    SELECT id, status, attempt_count, max_retries, fencing_token, created_at, started_at,
        completed_at, attempts::text FROM mainspring.task_history
"""


async def eventually(
    look: Callable[[], T], what: str, within_seconds: float = PATIENCE_SECONDS
) -> T:
    """Look again and again until there is something to see, and return it."""
    end = time.monotonic() + within_seconds
    while not (seen := look()):
        if time.monotonic() > end:
            raise AssertionError(f"not seen within {within_seconds:g} s: {what}")
        await asyncio.sleep(_LOOK_SECONDS)
    return seen


class Program:
    """A child process of the test, with what it says in a file."""

    def __init__(
        self, arguments: Sequence[str], environment: dict[str, str], said: Path, *, cwd: Path
    ) -> None:
        self.said_file = said
        with said.open("ab") as output:
            self.process = subprocess.Popen(
                arguments,
                env=environment,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.pid = self.process.pid

    @property
    def said(self) -> str:
        return self.said_file.read_text()

    async def says(
        self, text: str, within_seconds: float = PATIENCE_SECONDS, *, times: int = 1
    ) -> None:
        """Wait until its output contains a text, so many times."""

        def look() -> bool:
            said = self.said
            assert self.process.poll() is None or said.count(text) >= times, said
            return said.count(text) >= times

        await eventually(look, f"{text!r} of {self.process.args!r}", within_seconds)

    def family(self) -> list[psutil.Process]:
        """The process and everything it started."""
        try:
            root = psutil.Process(self.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def runners(self) -> list[psutil.Process]:
        """The processes that execute handlers."""
        return [each for each in self.family()[1:] if "mainspring.cli.runner" in each.cmdline()]

    def send(self, sign: signal.Signals) -> None:
        self.process.send_signal(sign)

    def end(self) -> None:
        """Kill whatever is left."""
        for each in reversed(self.family()):
            each.kill()
        self.process.wait(10)

    async def ended(self, within_seconds: float = PATIENCE_SECONDS) -> int:
        """Wait for its end and return its exit status."""
        await eventually(
            lambda: self.process.poll() is not None, f"the end of {self.pid}", within_seconds
        )
        return self.process.returncode


class Stage:
    """One installation: a database, the programs on it, and the log of what handlers did."""

    def __init__(self, directory: Path, database_url: str = "") -> None:
        self.directory = directory
        self.database_url = database_url
        self.log = directory / "executions.jsonl"
        self.gate = directory / "gate"
        self.deaths: dict[int, float] = {}
        self.accepted: set[str] = set()
        self._programs: list[Program] = []

    def start(self, *arguments: str, **settings: object) -> Program:
        """Start a command of `mainspring`."""
        command = [sys.executable, "-c", "from mainspring.cli import main; main()", *arguments]
        return self.start_program(command, arguments[0], **settings)

    def start_program(self, command: Sequence[str], name: str, **settings: object) -> Program:
        """Start any program with the environment of this installation."""
        chosen = {
            "lease_seconds": LEASE_SECONDS,
            "heartbeat_seconds": HEARTBEAT_SECONDS,
            **settings,
        }
        environment = {
            **os.environ,
            "MAINSPRING_PORT": "0",
            "MAINSPRING_GRPC_PORT": "0",
            # The code beside these tests, whatever is installed.
            "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent / 'src'}",
            "FAULT_LOG": str(self.log),
            "MAINSPRING_DATABASE_URL": self.database_url,
            **{f"MAINSPRING_{name.upper()}": str(value) for name, value in chosen.items()},
        }
        said = self.directory / f"{name}-{len(self._programs)}.log"
        program = Program(command, environment, said, cwd=self.directory)
        self._programs.append(program)
        return program

    def start_worker(self, **settings: object) -> Program:
        """Start a worker."""
        return self.start("worker", "--app", "faults.handlers:app", **{"processes": 1, **settings})

    async def worker(self, **settings: object) -> Program:
        """Start a worker and wait until it takes tasks."""
        program = self.start_worker(**settings)
        await program.says("worker runs")
        return program

    async def scheduler(self) -> Program:
        """Start a scheduler and wait until it does its duties."""
        program = self.start("scheduler")
        await program.says("scheduler is ready")
        return program

    def submitter(self, log: Path, *, callers: int, kind: str) -> Program:
        """Start a program that submits without end."""
        command = [sys.executable, "-m", "faults.submitter", str(log), str(callers), kind]
        return self.start_program(command, f"submitter-{kind}")

    def kill(self, *victims: psutil.Process) -> float:
        """Kill -9 and return when."""
        for victim in victims:
            victim.kill()
        now = time.time()
        self.deaths.update((victim.pid, now) for victim in victims)
        return now

    def events(self, event: str) -> list[dict[str, Any]]:
        """What handlers logged under a name."""
        return [record for record in read_lines(self.log) if record["event"] == event]

    async def happens(
        self, event: str, count: int, within_seconds: float = PATIENCE_SECONDS
    ) -> list[dict[str, Any]]:
        """Wait until handlers have logged so many of an event."""
        return await eventually(
            lambda: found if len(found := self.events(event)) >= count else [],
            f"{count} times {event!r}; seen: {len(self.events(event))}",
            within_seconds,
        )

    def open_gate(self) -> None:
        self.gate.touch()

    async def submit(
        self, app: Mainspring, count: int, task_type: str, **payload: Any
    ) -> list[UUID]:
        """Submit tasks and remember that they were acknowledged."""
        tasks = [app.new_task(task_type, payload) for _ in range(count)]
        ids = [handle.id for handle in await app.submit_many(tasks)]
        self.accepted.update(map(str, ids))
        return ids

    async def rows(self) -> list[Row]:
        """All tasks as they are in the tables now."""
        connection = await asyncpg.connect(self.database_url)
        try:
            return [_row(record) for record in await connection.fetch(_DUMP)]
        finally:
            await connection.close()

    async def row(self, task_id: UUID) -> Row:
        """One task as it is in the tables now."""
        return next(row for row in await self.rows() if row.task == str(task_id))

    async def ask(self, question: str, *arguments: object) -> Any:
        """One value from the database."""
        connection = await asyncpg.connect(self.database_url)
        try:
            return await connection.fetchval(question, *arguments)
        finally:
            await connection.close()

    async def settled(self, within_seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until no task is waiting or running."""
        end = time.monotonic() + within_seconds
        while left := await self.ask("SELECT count(*) FROM mainspring.tasks"):
            assert time.monotonic() < end, f"{left} tasks have not ended"
            await asyncio.sleep(0.05)

    async def history(self) -> History:
        """Everything that is known now."""
        return History(
            accepted=set(self.accepted),
            executions=read_executions(read_lines(self.log)),
            rows=await self.rows(),
            deaths=self.deaths,
        )

    def end(self) -> None:
        """Kill every program that is left."""
        for program in reversed(self._programs):
            program.end()


@asynccontextmanager
async def client(database_url: str) -> AsyncIterator[Mainspring]:
    """An app of the test's own, to submit and look with."""
    app = Mainspring(Settings(database_url=database_url))
    try:
        yield app
    finally:
        await app.close()


def stopped(processes: Sequence[psutil.Process]) -> Iterator[bool]:
    """Whether each process is held by SIGSTOP."""
    return (process.status() == psutil.STATUS_STOPPED for process in processes)


def has_ended(process: psutil.Process) -> bool:
    """An orphan that nobody has waited for yet has ended all the same."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def _row(record: asyncpg.Record) -> Row:
    def seconds(name: str) -> float | None:
        return None if record[name] is None else record[name].timestamp()

    return Row(
        task=str(record["id"]),
        status=record["status"],
        attempt_count=record["attempt_count"],
        max_retries=record["max_retries"],
        token=record["fencing_token"],
        created=record["created_at"].timestamp(),
        started=seconds("started_at"),
        completed=seconds("completed_at"),
        failed=read_failed(record["attempts"]),
    )
