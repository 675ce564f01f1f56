import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from mainspring.adapters.logs import configure_logs, teller


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield io.StringIO()
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def test_text_is_one_line_whatever_it_holds(lines: io.StringIO) -> None:
    configure_logs("info", "text", lines)
    log = structlog.get_logger("mainspring.worker")
    log.warning("bad \r\n2026-01-01 admin logged in", error="\x1b[2Jgone\u202e", id=7)
    (line,) = lines.getvalue().splitlines()
    assert "\x1b" not in line
    assert "\u202e" not in line
    assert r"bad \r\n2026-01-01 admin logged in error=\x1b[2Jgone\u202e id=7" in line


def test_records_of_the_standard_library_look_the_same(lines: io.StringIO) -> None:
    configure_logs("info", "json", lines)
    logging.getLogger("mainspring.task").info("sent %d", 3, extra={"task_id": "t"})
    logging.getLogger("mainspring.task").debug("not shown")
    record = json.loads(lines.getvalue())
    assert (record["event"], record["task_id"], record["level"]) == ("sent 3", "t", "info")
    assert record["logger"] == "mainspring.task"


@pytest.mark.parametrize("style", ["text", "json"])
def test_secrets_are_left_out(lines: io.StringIO, style: str) -> None:
    configure_logs("info", style, lines)
    structlog.get_logger().info(
        "connecting to postgresql://me:hunter2@host/db",
        password="hunter2",
        api_key="hunter2",
        Authorization="Bearer hunter2",
        access_token="hunter2",
        dsn="postgresql://me:hunter2@host/db",
        fencing_token=5,
    )
    text = lines.getvalue()
    assert "hunter2" not in text
    assert "host/db" in text
    assert "5" in text


def test_long_text_is_cut(lines: io.StringIO) -> None:
    configure_logs("info", "json", lines)
    structlog.get_logger().info("x", error="y" * 1_000_000)
    assert len(lines.getvalue()) < 5000


def test_a_value_that_cannot_be_shown_is_no_trouble(lines: io.StringIO) -> None:
    class Bad:
        def __str__(self) -> str:
            raise RuntimeError

    configure_logs("info", "text", lines)
    structlog.get_logger().info("x", value=Bad(), lone="\ud800", nul="\x00")
    assert "value=<Bad>" in lines.getvalue()


def test_what_nobody_can_be_told_ends_nothing() -> None:
    def told(text: str) -> None:
        raise BrokenPipeError(text)

    teller("text", told)("stopping")


def test_a_stack_trace_is_indented_under_its_line(lines: io.StringIO) -> None:
    configure_logs("info", "text", lines)
    log: Any = structlog.get_logger()
    try:
        int("\x1b[31mred")
    except ValueError:
        log.exception("it failed")
    first, *rest = lines.getvalue().splitlines()
    assert first.endswith("it failed")
    assert all(line.startswith("    ") for line in rest)
    assert rest[-1].startswith("    ValueError: invalid literal")
    assert "\x1b" not in rest[-1]


def test_what_a_service_says_is_json_where_its_logs_are(lines: io.StringIO) -> None:
    configure_logs("info", "json", lines)
    plain: list[str] = []
    teller("json", plain.append)("ready")
    teller("text", plain.append)("ready")
    assert json.loads(lines.getvalue())["event"] == "ready"
    assert plain == ["ready"]
