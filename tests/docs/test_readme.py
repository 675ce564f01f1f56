"""README.md, command by command: it shows what really happens."""

from pathlib import Path

import pytest

from docs.console import Command, Script, read_page, terminal

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(400)
def test_the_readme_works_as_shown(tmp_path: Path) -> None:
    with terminal(tmp_path, ROOT) as opened:
        opened.run((ROOT / "README.md").read_text())


def matches(expected: str, output: str) -> bool:
    return Command("x", expected).pattern.fullmatch(output) is not None


def test_dots_stand_for_anything_and_the_rest_for_itself() -> None:
    assert matches("...\nready\n", "a\nb\nready\n")
    assert matches("...\nready\n...\n", "ready\n")
    assert matches("...done...\n", "it is done\nand more\n")
    assert matches("a (b) ... d\n", "a (b) c d\n")
    assert matches("", "")
    assert not matches("...\nready\n", "not ready\n")
    assert not matches("ready\n", "ready\nand more\n")
    assert not matches("a\n...\nb\n", "a\n")


def test_files_scripts_and_commands_are_told_apart() -> None:
    file, program = "Write `a.py`:\n\n```python\nx = 1\n```\n", "```python\nx\n```\n"
    page = f"{file}\n```console\n$ one\nsays\n$ two\n```\n\n{program}"
    assert list(read_page(page)) == [
        Script("x = 1\n", "a.py"),
        Command("one", "says\n"),
        Command("two", ""),
        Script("x\n"),
    ]
