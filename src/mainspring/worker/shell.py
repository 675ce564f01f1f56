"""The built-in task type `shell`: runs a command. It is off unless the setting `shell_tasks` is on.

The command runs in the process group of a runner that has nothing else to do. So when its time is
over, it is cancelled, or the worker ends, everything that it started ends with it.
"""

import subprocess
import tempfile
from typing import Any, Final

from mainspring.config import foreign_environment
from mainspring.core.context import TaskContext
from mainspring.core.definitions import define
from mainspring.core.registry import TaskDefinition
from mainspring.domain.errors import InvalidValue

SHELL_TYPE: Final = "shell"
OUTPUT_BYTES_MAX: Final = 64 * 1024
"""Of the output so much is kept, from its end."""

_CHUNK: Final = 64 * 1024
_SHELL: Final = "/bin/sh"
_SHOWN: Final = 500


class CommandFailed(RuntimeError):
    """The command ended with an exit status other than 0, or by a signal."""


def run_command(
    ctx: TaskContext,
    command: str,
    stdin: str = "",
    environment: dict[str, str] | None = None,
    directory: str | None = None,
) -> dict[str, Any]:
    """Run a command in a shell and return its exit status and the end of its output.

    The command gets the environment of the worker without Mainspring's own settings, and above it
    `environment`; `SHELL` there says which shell. It also gets `MAINSPRING_TASK_ID` and, where a
    schedule made the task, `MAINSPRING_SCHEDULE` and `MAINSPRING_NOMINAL_TIME`.
    """
    given = environment or {}
    shell = given.get("SHELL", _SHELL)
    with tempfile.TemporaryFile() as source:
        source.write(stdin.encode())
        source.seek(0)
        try:
            process = subprocess.Popen(
                [shell, "-c", command],
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**foreign_environment(), **_facts(ctx), **given},
                cwd=directory or given.get("HOME"),
            )
        except OSError as error:
            message = f"the command cannot be started: {error.strerror}: {error.filename}"
            raise CommandFailed(message) from None
        with process:
            output, size = _read(process)
    text = output.decode(errors="replace").replace("\x00", "\ufffd")
    if process.returncode != 0:
        end = text.strip()[-_SHOWN:]
        raise CommandFailed(f"the command ended with status {process.returncode}: {end}")
    return {"exit_status": 0, "output": text, "output_bytes": size}


def shell_definition() -> TaskDefinition:
    """Return the task type, to be added to what an app has."""
    return define(SHELL_TYPE, run_command, process=True, max_retries=0)


def check_enabled(*, is_enabled: bool) -> None:
    """Raise `InvalidValue` with the way out when shell tasks are off."""
    if not is_enabled:
        raise InvalidValue(
            "shell tasks are off; workers run them only with MAINSPRING_SHELL_TASKS=true, so set "
            "it here and there if you want schedules to run commands",
            field="shell_tasks",
        )


def _read(process: "subprocess.Popen[bytes]") -> tuple[bytes, int]:
    """Read all the output and keep its end, so that no command can fill the memory."""
    assert process.stdout is not None
    kept, size = b"", 0
    while chunk := process.stdout.read1(_CHUNK):  # type: ignore[attr-defined]
        size += len(chunk)
        kept = (kept + chunk)[-OUTPUT_BYTES_MAX:]
    return kept, size


def _facts(ctx: TaskContext) -> dict[str, str]:
    facts = {"MAINSPRING_TASK_ID": str(ctx.task_id)}
    if ctx.schedule is not None and ctx.nominal_time is not None:
        facts["MAINSPRING_SCHEDULE"] = ctx.schedule
        facts["MAINSPRING_NOMINAL_TIME"] = ctx.nominal_time.isoformat()
    return facts
