"""The table of `docs/guides/configuration.md` says what the code says.

Run this file to write it anew after a change of the settings.
"""

from collections.abc import Iterator
from pathlib import Path

from mainspring.config import Entry, entries

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "configuration.md"
MARK = "<!-- from here on written by tests/docs/test_configuration_guide.py -->\n"


def table() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "| setting | environment | default | unit | allowed | meaning |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for entry in entries():
        cells = (
            f"`{entry.name}`",
            f"`{entry.variable}`",
            _default(entry),
            entry.facts.unit,
            _allowed(entry),
            entry.facts.doc,
        )
        yield f"| {' | '.join(cells)} |"


def _default(entry: Entry) -> str:
    default = entry.default
    if isinstance(default, bool):
        default = str(default).lower()
    text = ",".join(default) if isinstance(default, tuple) else str(default)
    return f"`{text}`" if text else ""


def _allowed(entry: Entry) -> str:
    facts = entry.facts
    if facts.choices:
        return ", ".join(facts.choices)
    return "" if facts.low is None else f"{facts.low:.10g} to {facts.high:.10g}"


def test_the_table_is_that_of_the_code() -> None:
    text = PAGE.read_text()
    assert text[text.index(MARK) + len(MARK) :].strip() == table(), (
        "run `python tests/docs/test_configuration_guide.py` to write the page anew"
    )


def write() -> None:
    text = PAGE.read_text()
    PAGE.write_text(text[: text.index(MARK) + len(MARK)] + "\n" + table() + "\n")


if __name__ == "__main__":
    write()
