"""Each test of this folder runs once for each adapter of the store."""

from collections.abc import AsyncIterator

import pytest

from conformance.scene import Scene, Trap
from mainspring.adapters.memory.store import MemoryStore
from mainspring.ports.store import Store
from manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def trap() -> Trap:
    return Trap()


@pytest.fixture(params=["memory"])
async def store(
    request: pytest.FixtureRequest, clock: ManualClock, trap: Trap
) -> AsyncIterator[Store]:
    opened = MemoryStore(clock, hooks=trap)
    yield opened
    await opened.close()


@pytest.fixture
def scene(store: Store, clock: ManualClock, trap: Trap) -> Scene:
    return Scene(store, clock, trap)
