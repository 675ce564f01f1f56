import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of simulated faults are no news."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
