"""The reference part of `docs/guides/cli.md` says what the program says.

Run this file to write it anew after a change of the commands.
"""

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from mainspring.cli.root import program

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "cli.md"
MARK = "<!-- from here on written by tests/docs/test_cli_guide.py -->\n"


def reference() -> str:
    context = click.Context(program, info_name="mainspring")
    return "\n".join(_of(program, context, ("mainspring",)))


def _of(command: click.Command, context: click.Context, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _of(child, click.Context(child, context, name), (*path, name))
        return
    arguments = [
        param.make_metavar(context) for param in command.params if isinstance(param, click.Argument)
    ]
    yield f"### `{' '.join([*path, *arguments])}`\n"
    yield inspect.cleandoc(command.help or "") + "\n"
    rows = list(_options(command, context))
    if rows:
        yield "| option | meaning |\n| --- | --- |"
        yield from rows
        yield ""


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for param in command.params:
        if isinstance(param, click.Option):
            record = param.get_help_record(context)
            assert record is not None
            words, meaning = (text.replace("|", "\\|").replace("  ", " ") for text in record)
            assert meaning.strip(), f"{words} has no help"
            yield f"| `{words}` | {meaning} |"


def test_the_reference_is_that_of_the_program() -> None:
    text = PAGE.read_text()
    assert text[text.index(MARK) + len(MARK) :].strip() == reference().strip(), (
        "run `python tests/docs/test_cli_guide.py` to write the page anew"
    )


def write() -> None:
    text = PAGE.read_text()
    PAGE.write_text(text[: text.index(MARK) + len(MARK)] + "\n" + reference().strip() + "\n")


if __name__ == "__main__":
    write()
