"""The live table of `mainspring tasks watch`."""

import io
from datetime import UTC, datetime
from uuid import UUID

import msgspec
import pytest
from rich.console import Console

from mainspring.cli.task_watch import live_table
from mainspring.domain.priority import Level
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Task

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TASK = Task(
    task_id=UUID("01a2286b-cf1a-7231-a8e6-b853f8cb3401"),
    task_type="resize",
    payload=msgspec.Raw(b"{}"),
    queue="default",
    priority=5,
    level=Level.NORMAL,
    status=TaskStatus.RUNNING,
    ready=False,
    schedule_type="one_time",
    scheduled_at=NOW,
    timeout=30.0,
    max_retries=3,
    retry_backoff="exponential",
    attempt_count=2,
    created_at=NOW,
    progress=msgspec.Raw(b'{"done": 7, "of": 10, "file": "a-long-name.jpeg"}'),
    last_error="ValueError: [red]no markup[/red] \r\n\x1b[2J" + "x" * 300,
)


@pytest.mark.parametrize("width", [80, 100, 160])
def test_a_task_is_one_line_with_its_whole_id(width: int) -> None:
    screen = io.StringIO()
    Console(file=screen, width=width, force_terminal=True, color_system=None).print(
        live_table([TASK])
    )
    head, row = screen.getvalue().rstrip("\n").split("\n")
    assert head.split()[:2] == ["ID", "STATUS"]
    assert str(TASK.task_id) in row
    assert "running" in row
    assert "\x1b[2J" not in row


def test_what_users_wrote_is_no_markup() -> None:
    screen = io.StringIO()
    Console(file=screen, width=250, color_system=None).print(live_table([TASK]))
    assert "[red]no markup[/red]" in screen.getvalue()
