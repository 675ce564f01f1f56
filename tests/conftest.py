"""What every test gets: a clean environment, a printed seed, and real servers on demand."""

import os
import random
import secrets
import signal
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

pytest_plugins = ["fixtures.postgres", "fixtures.pgbouncer", "fixtures.etcd", "fixtures.valkey"]

SEED = pytest.StashKey[int]()
KEPT = {"MAINSPRING_SIM_SEEDS"}

# The modules that take longest go first: no process is left alone with one of them at the end.
LONGEST_FIRST = (
    "acceptance/test_setup.py",
    "acceptance/test_cluster.py",
    "integration/test_embedded.py",
    "simulation/test_seeds.py",
    "api/test_openapi.py",
    "acceptance/test_tasks.py",
    "docs/test_readme.py",
    "integration/postgres/test_plans.py",
    "acceptance/test_schedules.py",
    "simulation/test_mutants.py",
    "acceptance/test_examples.py",
    "faults/test_schedulers.py",
    "conformance/test_mutants.py",
    "integration/postgres/test_caller_transactions.py",
    "integration/postgres/test_planners.py",
    "faults/test_etcd.py",
    "faults/test_stale.py",
    "faults/test_killed_up.py",
    "faults/test_ready_queue.py",
    "faults/test_killed_server.py",
    "integration/shards/test_moving.py",
    "integration/worker/test_real_store.py",
    "integration/worker/test_stopping.py",
    "integration/worker/test_leases.py",
    "integration/worker/test_running.py",
    "faults/test_stopped_worker.py",
    "faults/test_failover.py",
    "faults/test_limits.py",
    "api/test_schedules.py",
    "api/test_bad_input.py",
    "unit/cron/test_against_oracle.py",
    "unit/cron/test_clock_changes.py",
)

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
    # What a shell starts in the background ignores Ctrl-C, and would hand that on to the programs
    # that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A developer's own settings must not decide what a test sees.
    for name in [name for name in os.environ if name.startswith("MAINSPRING_")]:
        if name not in KEPT:
            del os.environ[name]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest modules first; the order within each stays."""
    here = Path(__file__).parent
    places = {here / name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


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
