"""Real `mainspring` processes, as a user starts them from a terminal."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from acceptance.forks import PATIENCE_SECONDS, Forks

APP = """
import time
from mainspring import Mainspring, TaskContext

app = Mainspring()

@app.schedule(
    "0 9 * * MON-FRI", timezone="Europe/Berlin", name="declared", payload={"name": "schedule"}
)
@app.task
async def greet(ctx: TaskContext, name: str = "you") -> str:
    return f"hello {name}"

@app.task(max_retries=0)
def fail(text: str = "broken") -> None:
    raise ValueError(text)

@app.task
def nap(seconds: float) -> None:
    time.sleep(seconds)
"""

Arguments = str | Path | int


@dataclass(frozen=True)
class Answer:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """The JSON values it printed, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def value(self) -> Any:
        """The one JSON value it printed."""
        (value,) = self.lines
        return value

    @property
    def sentence(self) -> str:
        """The one sentence with which it refused; fails if there is anything else."""
        (line,) = self.err.splitlines()
        assert line.startswith("error: "), line
        return line.removeprefix("error: ")


def _answer(status: int, out: bytes, err: bytes) -> Answer:
    assert b"Traceback" not in err, err.decode()
    return Answer(status, out.decode(), err.decode())


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if "MAINSPRING" not in name}


class Shell:
    """Runs commands in a directory."""

    process: psutil.Process
    """What runs in the directory, where something does."""

    api_url: str

    def __init__(self, directory: Path, forks: Forks | None = None, **environment: str) -> None:
        self.directory = directory
        self._forks = forks
        # Several installations run at a time, so each takes any port that is free.
        ports = {"MAINSPRING_PORT": "0", "MAINSPRING_GRPC_PORT": "0"}
        self.environment = {**clean_environment(), **ports, **environment}

    def __call__(self, *arguments: Arguments, stdin: bytes = b"", **environment: str) -> Answer:
        if self._forks is None:
            return self.fresh(*arguments, stdin=stdin, **environment)
        words = [str(each) for each in arguments]
        chosen = {**self.environment, **environment}
        return _answer(*self._forks.run(words, self.directory, chosen, stdin))

    def fresh(self, *arguments: Arguments, stdin: bytes = b"", **environment: str) -> Answer:
        """Run a command in an interpreter of its own."""
        result = subprocess.run(
            self.command(*arguments),
            cwd=self.directory,
            env={**self.environment, **environment},
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return _answer(result.returncode, result.stdout, result.stderr)

    def start(self, *arguments: Arguments, **environment: str) -> "Running":
        return Running(
            subprocess.Popen(
                self.command(*arguments),
                cwd=self.directory,
                env={**self.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )

    @staticmethod
    def command(*arguments: Arguments) -> list[str]:
        return [sys.executable, "-m", "mainspring", *map(str, arguments)]


class Running:
    """A command that goes on until it is stopped."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []

    def until(self, word: str) -> str:
        """Read on until it says a line with this word, and return that line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip())
            if word in line:
                return line.rstrip()
        pytest.fail(f"it ended without saying {word!r}: {self.said}")

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> int:
        """Signal it and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(sign)
        rest, _ = self.process.communicate(timeout=60)
        self.said.extend((rest or "").splitlines())
        return self.process.returncode
