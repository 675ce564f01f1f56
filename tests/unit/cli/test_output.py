"""Tables for people."""

import pytest

from mainspring.cli.output import CELL_LENGTH_MAX, print_table, shortened


def test_the_last_column_is_cut_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("A", "ERROR"), [(1, "x" * 1_000_000), (22, "\r\n\x1b[2J")])
    head, first, second = capsys.readouterr().out.splitlines()
    assert head == "A   ERROR"
    assert first == "1   " + "x" * (CELL_LENGTH_MAX - 1) + "…"
    assert second == "22  \\r\\n\\x1b[2J"


def test_text_that_fits_is_not_cut() -> None:
    assert shortened("abc", 3) == "abc"
    assert shortened("abcd", 3) == "ab…"
