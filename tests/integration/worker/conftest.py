"""Workers of these tests run real child processes; the store is in the test's own process."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from integration.worker.bench import Bench
from integration.worker.cut_store import CutStore
from integration.worker.sample_app import registry
from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.system import SystemClock


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(MemoryStore(SystemClock()), registry(), tmp_path)
    yield bench
    await bench.close()


@pytest.fixture
async def cut_bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """Its store is a `CutStore`."""
    store = CutStore()
    bench = Bench(store, registry(), tmp_path)
    yield bench
    store.heal()
    await bench.close()
