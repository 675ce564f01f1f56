"""The processes of a contestant: its workers and the client that submits."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Final, Self

from bench.harness.board import Board
from bench.harness.contestants import Command, Contestant
from bench.harness.environments import python_of
from bench.harness.meters import tree_of
from bench.harness.places import CONTESTANT, PEERS, RUNS

_TERM_SECONDS: Final = 3.0


def end_in_order_on_sigterm() -> None:
    """Have SIGTERM unwind the program, so that it stops the processes and servers it started."""

    def leave(number: int, frame: FrameType | None) -> None:
        del frame
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)


class Crew:
    """Starts and ends what belongs to one contestant on one database."""

    def __init__(
        self, contestant: Contestant, board: Board, address: str, log_name: str | None = None
    ) -> None:
        self.contestant = contestant
        self.folder = PEERS / contestant.folder
        self._bin = python_of(contestant.folder).parent
        self._address = address
        self._environment = self._variables(board)
        self._processes: list[subprocess.Popen[bytes]] = []
        RUNS.mkdir(parents=True, exist_ok=True)
        self._log = (RUNS / f"{log_name or contestant.name}.log").open("ab")

    def _variables(self, board: Board) -> dict[str, str]:
        path = f"{self._bin}{os.pathsep}{os.environ.get('PATH', '')}"
        variables = {k: v for k, v in os.environ.items() if not k.startswith("MAINSPRING_")}
        variables |= {
            "BENCH_BOARD": str(board.path),
            "PATH": path,
            "PYTHONPATH": f"{self.folder}{os.pathsep}{CONTESTANT}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if self.contestant.store == "postgres":
            variables["BENCH_PG"] = self._address
        else:
            variables["BENCH_REDIS"] = self._address
        if self.contestant.folder == "mainspring":
            variables["MAINSPRING_DATABASE_URL"] = self._address
            variables["MAINSPRING_LOG_LEVEL"] = "warning"
        return variables

    def add_variables(self, more: Mapping[str, str]) -> None:
        self._environment |= more

    def set_up(self) -> None:
        """Make the contestant's tables, if it has any."""
        if self.contestant.folder == "mainspring":
            command: list[str | Path] = [self._bin / "mainspring", "migrate"]
        else:
            command = [self._bin / "python", CONTESTANT / "client.py", "set-up"]
        if self.contestant.store == "postgres":
            subprocess.run(
                command,
                check=True,
                cwd=self.folder,
                env=self._environment,
                capture_output=True,
            )

    def start(self, commands: Iterable[Command]) -> list[int]:
        """Start processes, each the head of a session of its own; return their ids."""
        started: list[int] = []
        output = subprocess.DEVNULL if self.contestant.is_quiet else self._log
        for command in commands:
            words = [self._address if word == "{redis}" else word for word in command]
            process = subprocess.Popen(
                [self._bin / words[0], *words[1:]],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            self._processes.append(process)
            started.append(process.pid)
        return started

    def pids(self) -> list[int]:
        """Return the processes that were started and not stopped."""
        return [process.pid for process in self._processes]

    def look(self) -> None:
        """Raise when something that was started has ended by itself."""
        for process in self._processes:
            if process.poll() is not None:
                raise RuntimeError(f"a worker ended by itself: {last_line(self._log.name)}")

    def kill(self, pids: Iterable[int]) -> float:
        """End processes and everything below them as `kill -9` does; return when."""
        doomed = tree_of(pids)
        at = time.time()
        for process in doomed:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        for own in [process for process in self._processes if process.pid in set(pids)]:
            own.wait()
            self._processes.remove(own)
        return at

    def stop(self) -> None:
        """Let everything end by itself, and end what does not."""
        doomed = tree_of(self.pids())
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        end = time.monotonic() + _TERM_SECONDS
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.05, end - time.monotonic()))
        for left in doomed:
            with suppress(ProcessLookupError):
                if left.is_running():
                    os.kill(left.pid, signal.SIGKILL)
        for process in self._processes:
            process.wait()
        self._processes.clear()

    def client(self) -> "Client":
        """Start the submitting process and wait until it is connected."""
        return Client(
            [self._bin / "python", CONTESTANT / "client.py"],
            self.folder,
            self._environment,
            self._log,
        )

    def close(self) -> None:
        self.stop()
        self._log.close()


class Client:
    """The submitting process. `begin` and `end` let something else happen meanwhile."""

    def __init__(
        self,
        command: list[str | Path],
        folder: Path,
        environment: Mapping[str, str],
        log: Any,
    ) -> None:
        self._log_path = str(log.name)
        self._process = subprocess.Popen(
            [str(part) for part in command],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            bufsize=1,
        )
        self._answers: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.end(60)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@"):
                self._answers.put(json.loads(line[1:]))
        self._answers.put(None)

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def call(self, command: str, *arguments: object, timeout: float = 600) -> dict[str, Any]:
        """Have the client do something and return when it started and how long it took."""
        self.begin(command, *arguments)
        return self.end(timeout)

    def begin(self, command: str, *arguments: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([command, *arguments]) + "\n")
        self._process.stdin.flush()

    def end(self, timeout: float = 600) -> dict[str, Any]:
        """Return the answer to what was begun."""
        try:
            answer = self._answers.get(timeout=timeout)
        except Empty:
            answer = None
        if answer is not None:
            return answer
        self._process.kill()
        raise RuntimeError(f"the client of a contestant failed: {last_line(self._log_path)}")


def last_line(path: str) -> str:
    """Return the last line of a log, which says why."""
    lines = Path(path).read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
