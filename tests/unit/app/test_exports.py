import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import mainspring

SOURCE = Path(mainspring.__file__)


def test_the_public_names_are_few_and_sorted() -> None:
    assert mainspring.__all__ == sorted(mainspring.__all__)
    assert len(mainspring.__all__) <= 30


@pytest.mark.parametrize("name", mainspring.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(mainspring, name) is not None
    assert name in dir(mainspring)


def test_what_the_type_checker_sees_is_what_there_is() -> None:
    imported = {
        alias.name: node.module
        for node in ast.walk(ast.parse(SOURCE.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mainspring.")
        for alias in node.names
    }
    assert sorted([*imported, "__version__"]) == mainspring.__all__
    for name, module in imported.items():
        assert module is not None
        assert getattr(importlib.import_module(module), name) is getattr(mainspring, name)


def test_other_names_are_missing_as_usual() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = mainspring.nothing


def test_the_import_is_cheap() -> None:
    """Neither the package nor the overview of commands loads a driver or an event loop."""
    script = (
        "import sys, mainspring, mainspring.cli; "
        "print(sorted({'asyncio', 'asyncpg', 'httpx', 'structlog', 'rich'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert result.stdout.decode().strip() == "[]"
