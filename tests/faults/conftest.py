"""Installations for the fault tests."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from faults.stage import Stage, client
from mainspring import Mainspring


@pytest.fixture
def stage(database: str, tmp_path: Path) -> Iterator[Stage]:
    """An installation on a database of its own; no program of it outlives the test."""
    stage = Stage(tmp_path, database)
    yield stage
    stage.end()


@pytest.fixture
async def app(stage: Stage) -> AsyncIterator[Mainspring]:
    """The test's own way in."""
    async with client(stage.database_url) as app:
        yield app
