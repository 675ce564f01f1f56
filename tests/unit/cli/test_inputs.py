"""What the command line makes of words."""

import sys
from datetime import UTC, datetime, timedelta

import pytest

from mainspring.cli.inputs import parse_since, read_payload
from mainspring.domain.errors import InvalidValue


def test_since_is_a_time_or_how_long_ago() -> None:
    assert parse_since("2026-05-12T15:00:00Z", "since") == datetime(2026, 5, 12, 15, tzinfo=UTC)
    since = parse_since("1h30m", "since")
    ago = datetime.now(UTC) - since
    assert timedelta(minutes=89) < ago < timedelta(minutes=91)


@pytest.mark.parametrize("text", ["", "soon", "999999999d", "0001-01-01T00:00:00+14:00"])
def test_since_that_is_neither(text: str) -> None:
    with pytest.raises(InvalidValue, match=r"since is .*; give a time from 1970 on"):
        parse_since(text, "since")


def test_standard_input_that_is_closed_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidValue, match="payload is not JSON"):
        read_payload("-")
