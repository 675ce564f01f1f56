"""The house rules that no other tool checks. Each failure names the place and the way out."""

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

MODULE_LINES = (400, 420)
FUNCTION_LINES = (50, 60)
MOST_PARAMETERS = 7

# Everything ambient enters through a port, so that a test or a simulation decides it.
BANNED_CALLS = {
    "datetime.now": "ask the Clock port",
    "datetime.utcnow": "ask the Clock port",
    "datetime.today": "ask the Clock port",
    "date.today": "ask the Clock port",
    "time.time": "ask the Clock port",
    "time.time_ns": "ask the Clock port",
    "time.monotonic": "ask the Clock port",
    "time.monotonic_ns": "ask the Clock port",
    "time.sleep": "wait on the Clock port or for a signal",
    "asyncio.sleep": "wait on the Clock port or for a signal",
    "uuid.uuid1": "make ids in mainspring.domain.ids from a time and random bits",
    "uuid.uuid4": "make ids in mainspring.domain.ids from a time and random bits",
    "uuid.uuid7": "make ids in mainspring.domain.ids from a time and random bits",
}
BANNED_NAMES = {
    "os.environ": "read settings in mainspring.config",
    "os.getenv": "read settings in mainspring.config",
}
RANDOM = "take the random source as an argument"

HOMES_OF_CALLS = {"mainspring/adapters/system.py", "mainspring/testing.py"}
HOMES_OF_NAMES = {"mainspring/config/environment.py", *HOMES_OF_CALLS}

BANNED_MODULES = {"utils", "util", "common", "helpers", "helper", "misc", "manager", "base"}

SQL = re.compile(
    r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|WITH\s+\w+\s+AS\s*\("
    r"|(CREATE|ALTER|DROP)\s+(TABLE|INDEX|SCHEMA|FUNCTION|DATABASE|ROLE))\b",
    re.DOTALL,
)
# Places of one machine, and hosts that a lock or a page must not depend on.
FOREIGN = re.compile(
    rb"(?<![\w.])/(?:home|Users)/\w+/|/work"
    rb"/main|/root"
    rb"/|files\.pythonhosted\."
    rb"org"
    rb"|//pypi\."
    rb"org|registry\.npmjs\."
    rb"org|proxy\.golang\."
    rb"org"
)


def committed(*patterns: str) -> list[Path]:
    """The files that git knows, or for an unpacked archive all files."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:
        hidden = {".venv", ".git", ".cache"}
        paths = [
            path
            for pattern in patterns or ("*",)
            for path in ROOT.rglob(Path(pattern).name)
            if not hidden & set(path.relative_to(ROOT).parts)
        ]
    return [path for path in paths if path.is_file()]


def modules() -> Iterator[tuple[str, ast.Module, str]]:
    """Each module of the package: its path below src, its tree and its text."""
    for path in sorted(SRC.rglob("*.py")):
        text = path.read_text()
        name = path.relative_to(SRC).as_posix()
        if "/_generated/" not in name:
            yield name, ast.parse(text), text


def report(problems: Iterable[str]) -> None:
    found = sorted(problems)
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def dotted(node: ast.AST) -> str:
    """``a.b.c`` for such an expression, and "" for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def imported_names(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for: ``from time import time as now`` gives now: time.time."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update({item.asname: item.name for item in node.names if item.asname})
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for item in node.names:
                names[item.asname or item.name] = f"{node.module}.{item.name}"
    return names


def meaning(node: ast.AST, names: dict[str, str]) -> str:
    """The full name of an expression, with the module ``datetime`` left out."""
    first, dot, rest = dotted(node).partition(".")
    full = f"{names.get(first, first)}{dot}{rest}"
    return full.removeprefix("datetime.") if full.count(".") > 1 else full


def test_modules_are_short() -> None:
    report(
        f"{name}: {lines} lines, aim at {MODULE_LINES[0]}; split it by subject"
        for name, _, text in modules()
        if (lines := text.count("\n")) > MODULE_LINES[1]
    )


def test_functions_are_short() -> None:
    report(
        f"{name}:{node.lineno} {node.name}: {lines} lines, aim at {FUNCTION_LINES[0]}; "
        "name its steps and make them functions"
        for name, tree, _ in modules()
        for node in functions(tree)
        if (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES[1]
    )


def test_functions_have_few_positional_parameters() -> None:
    report(
        f"{name}:{node.lineno} {node.name}: {count} positional parameters, at most "
        f"{MOST_PARAMETERS}; make them keyword-only or give them a class"
        for name, tree, _ in modules()
        for node in functions(tree)
        if (count := len(node.args.posonlyargs) + len(node.args.args)) > MOST_PARAMETERS
    )


def test_time_chance_and_environment_are_read_in_one_place() -> None:
    report(problem for name, tree, _ in modules() for problem in ambient_reads(name, tree))


def ambient_reads(name: str, tree: ast.Module) -> Iterator[str]:
    names = imported_names(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute | ast.Name):
            continue
        full = meaning(node, names)
        if name not in HOMES_OF_NAMES and full in BANNED_NAMES:
            yield f"{name}:{node.lineno} {full}: {BANNED_NAMES[full]}"
        if name not in HOMES_OF_CALLS:
            if full in BANNED_CALLS:
                yield f"{name}:{node.lineno} {full}: {BANNED_CALLS[full]}"
            elif full.startswith("random.") and full != "random.Random":
                yield f"{name}:{node.lineno} {full}: {RANDOM}"


@pytest.mark.parametrize(
    "code",
    [
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.now(datetime.UTC)",
        "import datetime as dt\ndt.datetime.utcnow()",
        "from time import monotonic as now\nnow()",
        "import asyncio\nasyncio.sleep(1)",
        "import random\nrandom.random()",
        "import random\nclock = random.shuffle",
        "from os import environ\nenviron['A']",
        "import os\nos.getenv('A')",
        "import uuid\nuuid.uuid4()",
    ],
)
def test_the_rule_on_ambient_reads_sees_each_spelling(code: str) -> None:
    assert list(ambient_reads("mainspring/core/example.py", ast.parse(code)))


def test_the_rule_on_ambient_reads_lets_injected_ones_pass() -> None:
    code = "import random\ndef f(clock, rng: random.Random):\n    return clock.now(), rng.random()"
    assert not list(ambient_reads("mainspring/core/example.py", ast.parse(code)))


def test_module_names_say_what_is_inside() -> None:
    report(
        f"{name}: name the module after its idea"
        for name, _, _ in modules()
        if BANNED_MODULES & set(Path(name).with_suffix("").parts)
    )


def first_party_imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import):
            if any(item.name.split(".")[0] == "mainspring" for item in inner.names):
                yield inner
        elif isinstance(inner, ast.ImportFrom) and (
            inner.level or (inner.module or "").split(".")[0] == "mainspring"
        ):
            yield inner


def test_first_party_imports_stand_at_the_top_of_the_module() -> None:
    report(
        f"{name}:{node.lineno}: a local import hides a cycle; move what both need down a layer"
        for name, tree, _ in modules()
        for function in functions(tree)
        for node in first_party_imports(function)
    )


def test_no_first_party_import_is_for_type_checking_only() -> None:
    # The package itself loads its public names when they are first used, so that the command line
    # starts fast; for it alone the types are named ahead.
    report(
        f"{name}:{node.lineno}: a TYPE_CHECKING import hides a cycle; move the type down a layer"
        for name, tree, _ in modules()
        if name != "mainspring/__init__.py"
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in first_party_imports(block)
    )


def docstrings(tree: ast.Module) -> set[int]:
    """The ids of the nodes that are documentation."""
    return {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }


def test_sql_lives_in_sql_files() -> None:
    report(
        f"{name}:{node.lineno}: SQL in Python; move it to a .sql file"
        for name, tree, _ in modules()
        for known in [docstrings(tree)]
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in known
        and SQL.search(node.value)
    )


def test_every_sql_file_begins_with_a_comment() -> None:
    report(
        f"{path.relative_to(ROOT)}: say in a comment at the top what it is for"
        for path in sorted(SRC.rglob("*.sql"))
        if not path.read_text().lstrip().startswith(("--", "/*"))
    )


def test_no_file_names_a_place_of_one_machine_or_a_registry() -> None:
    report(
        f"{path.relative_to(ROOT)}: names {found.group().decode()!r}"
        for path in committed()
        if (found := FOREIGN.search(path.read_bytes()))
    )


def test_nothing_is_left_open() -> None:
    open_end = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|raise NotImplementedError")
    report(
        f"{path.relative_to(ROOT)}: finish it or file it: {found.group()}"
        for path in committed("*.py", "*.sql", "Makefile")
        if path != Path(__file__).resolve()
        # What protoc leaves open is not ours.
        if "_generated" not in path.parts
        if (found := open_end.search(path.read_text()))
    )


def test_the_licence_is_there_and_the_types_are_published() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert (SRC / "mainspring" / "py.typed").exists()
