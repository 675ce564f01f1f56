"""The page of errors says what the code says, both ways, and links lead somewhere."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import mainspring
from mainspring.cli.exits import exit_code_of
from mainspring.domain.errors import MainspringError
from mainspring.domain.task import FailureKind

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"


def cells(page: Path) -> Iterator[list[str]]:
    """The cells of each row of a page's tables, heads left out."""
    for line in page.read_text().splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def errors() -> Iterator[type[MainspringError]]:
    """Every error that is part of the product, wherever it is defined.

    A class without a code of its own is, to whoever meets it, the error that it is derived from.
    """
    for module in pkgutil.walk_packages(mainspring.__path__, "mainspring."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    yield from (kind for kind in _with_those_below(MainspringError) if "code" in vars(kind))


def _with_those_below(kind: type[MainspringError]) -> Iterator[type[MainspringError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__.startswith("mainspring."):
            yield from _with_those_below(below)


def test_each_error_is_on_the_page_and_nothing_else() -> None:
    shown = {tuple(row[:3]) for row in cells(GUIDES / "errors.md")}
    expected = {
        (f"`{kind.code}`", f"`{kind.__name__}`", str(exit_code_of(kind("x")))) for kind in errors()
    }
    assert shown == expected


def test_each_error_has_a_code_of_its_own_and_a_way_out() -> None:
    codes = [kind.code for kind in errors()]
    assert len(codes) == len(set(codes))
    exported = {kind for kind in vars(mainspring).values() if isinstance(kind, type)}
    assert {kind for kind in exported if issubclass(kind, MainspringError)} <= {*errors()}
    assert all(row[3].endswith(".") for row in cells(GUIDES / "errors.md"))


def test_the_kinds_of_failed_attempts_are_on_the_page() -> None:
    page = (GUIDES / "errors.md").read_text()
    assert [kind for kind in FailureKind if f"`{kind}`" not in page] == []


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []
