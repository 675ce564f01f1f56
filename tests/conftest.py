"""What every test gets: a clean environment, a printed seed, and real servers on demand."""

import os
import random
import secrets
import zlib
from typing import Any

import pytest
from hypothesis import settings

pytest_plugins = ["fixtures.postgres", "fixtures.pgbouncer", "fixtures.etcd"]

SEED = pytest.StashKey[int]()
KEPT = {"MAINSPRING_SIM_SEEDS"}

settings.register_profile("mainspring", deadline=None, print_blob=True)
settings.load_profile("mainspring")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    wanted = os.environ.get("MAINSPRING_TEST_SEED")
    if worker is not None:
        seed = worker["mainspring_seed"]
    else:
        seed = int(wanted) if wanted else secrets.randbelow(2**32)
    config.stash[SEED] = seed
    if getattr(config.option, "hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(seed)
    # A developer's own settings must not decide what a test sees.
    for name in [name for name in os.environ if name.startswith("MAINSPRING_")]:
        if name not in KEPT:
            del os.environ[name]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["mainspring_seed"] = node.config.stash[SEED]


def pytest_report_header(config: pytest.Config) -> str:
    seed = config.stash[SEED]
    return f"seed: {seed} (MAINSPRING_TEST_SEED={seed} replays it)"


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """The seed of this run, which the header prints."""
    return pytestconfig.stash[SEED]


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """Random numbers that depend on the seed and on the test, but not on the order of tests."""
    return random.Random(seed ^ zlib.crc32(request.node.nodeid.encode()))
