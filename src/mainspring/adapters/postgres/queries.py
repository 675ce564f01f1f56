"""The SQL of this adapter, read once from its files: named, explained, with its transitions.

A file holds blocks. ``-- name: x`` begins a statement, ``-- fragment: x`` a piece that statements
and other pieces include as ``{{x}}``. The comments at the head of a statement say why it is as it
is; a line ``-- transition: claim`` names a change of status that it makes, which a test holds
against `domain.status`.
"""

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Final, NamedTuple

from mainspring.domain.status import Transition

_BLOCK: Final = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_INCLUDE: Final = re.compile(r"\{\{(\w+)\}\}")
_TRANSITION: Final = re.compile(r"^-- transition: (\w+)$", re.MULTILINE)
_WRITES: Final = re.compile(r"\b(INSERT|UPDATE|DELETE|pg_notify)\b|\bmainspring\.\w+_v\d")


class Query(NamedTuple):
    """One statement."""

    name: str
    sql: str
    why: str
    transitions: frozenset[Transition]
    writes: bool
    """Whether it may have changed something when its answer is lost."""


class Queries:
    """All statements by name."""

    def __init__(self, package: str = "mainspring.adapters.postgres") -> None:
        blocks = list(_blocks(package))
        fragments = {name: _bare(text) for kind, name, text in blocks if kind == "fragment"}
        self._queries = {
            name: _query(name, text, fragments) for kind, name, text in blocks if kind == "name"
        }

    def __getitem__(self, name: str) -> Query:
        return self._queries[name]

    def __iter__(self) -> Iterator[Query]:
        return iter(self._queries.values())


def _blocks(package: str) -> Iterator[tuple[str, str, str]]:
    folder = files(package) / "sql"
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            parts = _BLOCK.split(file.read_text(encoding="utf-8"))
            yield from zip(parts[1::3], parts[2::3], parts[3::3], strict=True)


def _query(name: str, text: str, fragments: dict[str, str]) -> Query:
    why = "\n".join(line[3:] for line in text.splitlines() if line.startswith("-- "))
    sql = _bare(text)
    while _INCLUDE.search(sql):
        sql = _INCLUDE.sub(lambda match: fragments[match[1]], sql)
    transitions = frozenset(Transition(word) for word in _TRANSITION.findall(text))
    return Query(name, sql, why, transitions, writes=bool(_WRITES.search(sql)))


def _bare(text: str) -> str:
    """Return a block without its comments: they are for readers, not for the wire."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines).strip().removesuffix(";")


QUERIES: Final = Queries()
"""Read when the module is loaded: a statement that does not exist is found before any is run."""
