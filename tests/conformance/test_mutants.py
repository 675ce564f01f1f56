"""The conformance suite bites: it finds every guard of the store that is taken away."""

import asyncio
import importlib
import inspect
from collections.abc import Callable, Coroutine, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from conformance.scene import Scene, Trap
from mainspring.adapters.memory.store import MemoryStore
from manual_clock import ManualClock
from mutants import MUTANTS, Mutant, plant

SECONDS = 5.0

Example = Callable[..., Coroutine[Any, Any, None]]


def examples() -> Iterator[tuple[str, Example, dict[str, Any]]]:
    """Every test that needs a scene and nothing else, with its parameters."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        module = importlib.import_module(f"conformance.{path.stem}")
        for name, example in inspect.getmembers(module, inspect.iscoroutinefunction):
            if name.startswith("test_"):
                needed = inspect.signature(example).parameters.keys()
                for parameters in combinations(example):
                    if needed == {"scene", *parameters}:
                        yield f"{path.stem}::{name}{parameters or ''}", example, parameters


def combinations(example: Example) -> Iterator[dict[str, Any]]:
    marks = [mark for mark in getattr(example, "pytestmark", []) if mark.name == "parametrize"]
    names = [mark.args[0] for mark in marks]
    for values in product(*(mark.args[1] for mark in marks)):
        yield dict(zip(names, values, strict=True))


async def run(example: Example, parameters: dict[str, Any]) -> None:
    clock, trap = ManualClock(), Trap()
    scene = Scene(MemoryStore(clock, hooks=trap), clock, trap)
    given = {"scene": scene, **parameters}
    async with asyncio.timeout(SECONDS):
        await example(**given)


def first_failure() -> str | None:
    """Run the suite on the store in memory and return the first test that fails."""
    for name, example, parameters in examples():
        try:
            asyncio.run(run(example, parameters))
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - whatever a broken store does
            return name
    return None


def test_the_suite_can_be_run_this_way_and_passes() -> None:
    assert sum(1 for _ in examples()) > 200
    assert first_failure() is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_suite_finds(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(mutant, monkeypatch)
    assert first_failure() is not None
