from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from mainspring.core.context import TaskContext
from mainspring.core.registry import Mode
from mainspring.domain.errors import InvalidValue
from mainspring.domain.task import TickRef
from mainspring.worker.shell import (
    OUTPUT_BYTES_MAX,
    CommandFailed,
    check_enabled,
    run_command,
    shell_definition,
)

NOON = datetime(2026, 5, 12, 12, tzinfo=UTC)


class Context(TaskContext):
    """A context with what the command is told, and no attempt behind it."""

    def __init__(self, tick: TickRef | None = None) -> None:
        self.tick = tick

    @property
    def task_id(self) -> UUID:
        return UUID(int=7)

    @property
    def schedule(self) -> str | None:
        return None if self.tick is None else self.tick.schedule

    @property
    def nominal_time(self) -> datetime | None:
        return None if self.tick is None else self.tick.nominal_at


def test_both_outputs_come_back() -> None:
    result = run_command(Context(), "echo out; echo err >&2")
    assert result == {"exit_status": 0, "output": "out\nerr\n", "output_bytes": 8}


def test_the_input_arrives_whole(tmp_path: Path) -> None:
    text = "line\n" * 100_000
    result = run_command(Context(), "wc -c", stdin=text)
    assert int(result["output"]) == len(text)


def test_a_status_other_than_0_fails_with_the_end_of_the_output() -> None:
    with pytest.raises(CommandFailed, match="status 3: why"):
        run_command(Context(), "echo why; exit 3")


def test_a_signal_fails() -> None:
    with pytest.raises(CommandFailed, match="status -9"):
        run_command(Context(), "kill -9 $$")


def test_of_a_flood_only_the_end_is_kept() -> None:
    result = run_command(Context(), "head -c 1000000 /dev/zero | tr '\\0' x; echo end")
    assert len(result["output"]) == OUTPUT_BYTES_MAX
    assert result["output"].endswith("xend\n")
    assert result["output_bytes"] == 1_000_004


def test_what_cannot_be_stored_is_replaced() -> None:
    result = run_command(Context(), "printf 'a\\000b\\377'")
    assert result["output"] == "a\ufffdb\ufffd"


def test_our_settings_are_not_for_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_DATABASE_URL", "postgresql://u:secret@h/d")
    tick = TickRef("nightly", NOON)
    output = run_command(Context(tick), "env", environment={"GREETING": "hello"})["output"]
    assert "secret" not in output
    assert "GREETING=hello" in output
    assert "MAINSPRING_SCHEDULE=nightly" in output
    assert "MAINSPRING_NOMINAL_TIME=2026-05-12T12:00:00+00:00" in output


def test_a_shell_that_does_not_exist_is_named() -> None:
    with pytest.raises(CommandFailed, match="/no/shell"):
        run_command(Context(), "true", environment={"SHELL": "/no/shell"})


def test_it_runs_alone_in_a_process_and_is_not_repeated() -> None:
    definition = shell_definition()
    assert (definition.mode, definition.max_retries) == (Mode.PROCESS, 0)


def test_it_is_refused_where_it_is_off() -> None:
    check_enabled(is_enabled=True)
    with pytest.raises(InvalidValue, match="MAINSPRING_SHELL_TASKS=true"):
        check_enabled(is_enabled=False)
