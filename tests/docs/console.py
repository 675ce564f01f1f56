"""Runs a page of documentation: its files, its commands and its Python, as shown and in order.

* A ```` ```python ```` block after a sentence that ends with a file's name and a colon is that
  file. Any other is run, in a program that has the names of the files before it.
* A ```` ```js ```` block is the file whose name the sentence before it has last.
* In a ```` ```console ```` block a line that begins with `$ ` is a command and what follows is its
  output, in which `...` stands for anything.
* A command that serves goes on until the end of the page, as it would in a terminal of its own.
* Looking is repeated until it shows what the page shows: work goes on meanwhile.
"""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 20.0
_PAUSE_SECONDS = 0.1

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`(\w+\.py)`:\s*\Z")
_SCRIPT_FILE = re.compile(r".*`(\w+\.mjs)`", re.DOTALL)
_SERVES = re.compile(
    r"(\w+=\S* )*mainspring (up|worker|scheduler)\b|flask .*\brun\b|make up\b|node worker\.mjs\b"
)
_LOOKS = re.compile(r"mainspring .*\b(list|get)\b|ls\b|grep\b|curl -s \S+$")
_OUTER_MAKE = {"ARGS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "WORKERS"}
_ANYTHING = re.escape("...")


@dataclass
class Command:
    """One command and what the page says it prints."""

    line: str
    expected: str = ""

    @property
    def pattern(self) -> re.Pattern[str]:
        """What the output has to be, line ends included."""
        parts = [
            "(?:.*\n)?"
            if text.strip() == "..."
            else re.escape(text).replace(_ANYTHING, ".*?") + "\n"
            for text in self.expected.splitlines()
        ]
        return re.compile("".join(parts), re.DOTALL)


@dataclass
class Script:
    """Python on the page: a file if it has a name, else something to run."""

    text: str
    file: str | None = None


def read_page(page: str) -> Iterator[Command | Script]:
    """Return the commands and the Python of a page, in order."""
    for block in _BLOCK.finditer(page):
        language, text = block.groups()
        if language == "python":
            named = _FILE.search(page[: block.start()])
            yield Script(text, named.group(1) if named else None)
        elif language == "js":
            named = _SCRIPT_FILE.match(page[: block.start()])
            assert named is not None, text
            yield Script(text, named.group(1))
        elif language == "console":
            yield from _commands(text)


def _commands(block: str) -> Iterator[Command]:
    commands: list[Command] = []
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            commands.append(Command(line[2:].strip()))
        else:
            commands[-1].expected += line
    return iter(commands)


@dataclass
class Terminal:
    """Where a page is run. `make` runs in the checkout, everything else in the directory."""

    directory: Path
    checkout: Path
    modules: list[str] = field(default_factory=list)
    _served: list[tuple[str, subprocess.Popen[bytes], Path]] = field(default_factory=list)

    def run(self, page: str) -> None:
        """Run all of a page and compare what it prints."""
        for step in read_page(page):
            if isinstance(step, Command):
                self._serve(step) if _SERVES.match(step.line) else self._do(step)
            elif step.file is not None:
                (self.directory / step.file).write_text(step.text)
                if step.file.endswith(".py"):
                    self.modules.append(step.file.removesuffix(".py"))
            else:
                self._execute(step.text)

    def _do(self, command: Command) -> None:
        end = time.monotonic() + (LOOK_SECONDS if _LOOKS.match(command.line) else 0.0)
        while True:
            status, output = self._output(command.line)
            if command.pattern.fullmatch(output):
                break
            if time.monotonic() > end:
                raise AssertionError(_difference(command, output))
            time.sleep(_PAUSE_SECONDS)
        assert "Traceback" not in output, output
        assert status in {0, 1}, f"$ {command.line} ended with {status}"

    def _output(self, line: str) -> tuple[int, str]:
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self.checkout if line.startswith("make ") else self.directory,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=5 * PATIENCE_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout.decode()

    def _serve(self, command: Command) -> None:
        said = self.directory / f"terminal-{len(self._served)}.log"
        with said.open("wb") as output:
            process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec env {command.line}"],
                cwd=self.directory,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._served.append((command.line, process, said))
        end = time.monotonic() + PATIENCE_SECONDS
        while not command.pattern.match(said.read_text()):
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError(_difference(command, said.read_text()))
            time.sleep(_PAUSE_SECONDS)

    def _execute(self, text: str) -> None:
        imports = "".join(f"from {module} import *\n" for module in self.modules)
        body = textwrap.indent(text, "    ")
        program = f"import asyncio\n{imports}\nasync def main():\n{body}\nasyncio.run(main())\n"
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=self.directory,
            env=self._environment(),
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stderr.decode()}"

    def _environment(self) -> dict[str, str]:
        here = Path(sys.executable).parent
        # A reader's shell was not started by `make test`, whose variables a `make` would inherit.
        theirs = {name: text for name, text in os.environ.items() if name not in _OUTER_MAKE}
        return {
            **theirs,
            "PATH": f"{here}:{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            # Several pages may be run at a time; a page that needs a port names it.
            "MAINSPRING_PORT": "0",
            "MAINSPRING_GRPC_PORT": "0",
        }

    def close(self) -> None:
        """End what serves with Ctrl-C; ours has to end well."""
        for line, process, said in reversed(self._served):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            status = process.wait(PATIENCE_SECONDS)
            output = said.read_text()
            assert "Traceback" not in output, output
            assert status == 0 or "mainspring " not in line, f"{line}: {status}\n{output}"


@contextmanager
def terminal(directory: Path, checkout: Path) -> Iterator[Terminal]:
    """A terminal in which nothing goes on after the block."""
    opened = Terminal(directory, checkout)
    try:
        yield opened
    finally:
        opened.close()


def _difference(command: Command, output: str) -> str:
    return f"$ {command.line}\nshould print\n{command.expected}\nand printed\n{output}"
