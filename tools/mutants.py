"""Break the product on purpose, in a copy of it, and see that a test notices.

    python tools/mutants.py [NAME ...]

Each mutant takes one guard away that promises of reliability rest on. The test named with it has to
pass on the copy as it is, and to fail on the mutant. Ends with status 1 when one does not. All of
them take a few minutes.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
POSTGRES = "src/mainspring/adapters/postgres"
TIMEOUT_SECONDS = 180


class Edit(NamedTuple):
    """What is replaced by what in one file, wherever it stands there."""

    file: str
    old: str
    new: str
    places: int = 1


class Mutant(NamedTuple):
    """What is broken, and the test that is to notice."""

    what: str
    edits: tuple[Edit, ...]
    test: str
    only: str = ""
    """Which of the test's parameters."""


MUTANTS = {
    "fence": Mutant(
        "endings are accepted under any token",
        (
            Edit(f"{POSTGRES}/sql/settle.sql", " AND t.fencing_token = s.token", "", 4),
            Edit(f"{POSTGRES}/sql/settle.sql", " AND t.fencing_token = o.token", ""),
        ),
        "tests/conformance/test_settle.py::test_an_ending_under_an_old_token_is_refused",
        "postgres",
    ),
    "commit": Mutant(
        "commits do not wait for the disk",
        (
            Edit(
                f"{POSTGRES}/pool.py", '"jit": "off",', '"jit": "off", "synchronous_commit": "off",'
            ),
        ),
        "tests/faults/test_fsync.py::test_each_acknowledged_submission_was_flushed_to_disk",
    ),
    "clock": Mutant(
        "leases end by the clock of whoever rescues",
        (
            Edit(
                f"{POSTGRES}/leases.py",
                "            self._now(),\n            ATTEMPTS_KEPT,",
                "            SystemClock().now(),\n            ATTEMPTS_KEPT,",
            ),
            Edit(
                f"{POSTGRES}/leases.py",
                "from mainspring.domain.status import",
                "from mainspring.adapters.system import SystemClock\n"
                "from mainspring.domain.status import",
            ),
        ),
        "tests/integration/postgres/test_clock.py",
    ),
    "tick": Mutant(
        "a nominal time may have several ticks",
        (
            Edit(
                f"{POSTGRES}/migrations/0004_schedules.sql",
                "PRIMARY KEY (schedule_id, nominal_at),",
                "PRIMARY KEY (schedule_id, nominal_at, decided_at),",
            ),
            Edit(
                f"{POSTGRES}/sql/schedules.sql",
                "ON CONFLICT (schedule_id, nominal_at) DO",
                "ON CONFLICT (schedule_id, nominal_at, decided_at) DO",
            ),
        ),
        "tests/conformance/test_schedules.py::"
        "test_a_nominal_time_that_has_a_tick_gets_no_second_one",
        "postgres",
    ),
    "redis": Mutant(
        "what Redis does not know any more is not looked for elsewhere",
        (
            Edit(
                f"{POSTGRES}/queued.py",
                "elif left > 0 and (not taken.is_complete or self._is_time_to_look()):",
                "elif os.sep != os.sep:",
            ),
            Edit(
                f"{POSTGRES}/queued.py",
                "            return await super().claim(request)\n"
                "        self.free(request.freed)\n",
                "            return Claim([], 0.1)\n        self.free(request.freed)\n",
            ),
            Edit(f"{POSTGRES}/queued.py", "import asyncio\n", "import asyncio\nimport os\n"),
            Edit(
                "src/mainspring/scheduler/feeder.py",
                "await began.fill(window.entries, window.limits)",
                "0 if feeding.slice in self._told "
                "else await began.fill(window.entries, window.limits)",
            ),
        ),
        "tests/faults/test_ready_queue.py",
    ),
    "heartbeat": Mutant(
        "leases are renewed by the event loop that handlers run on",
        (
            Edit(
                "src/mainspring/worker/leases.py",
                "is_done = await self.renew_all()",
                "is_done = True",
            ),
            Edit(
                "src/mainspring/worker/runner.py",
                "            attempt.task = self._loop.create_task(self._attend(attempt))\n",
                "            attempt.task = self._loop.create_task(self._attend(attempt))\n"
                "            self._beat(start.number)\n",
            ),
            Edit(
                "src/mainspring/worker/runner.py",
                "    async def _attend(",
                "    def _beat(self, number: int) -> None:\n"
                "        if number in self._attempts:\n"
                "            self._channel.send(Renew(number))\n"
                "            self._loop.call_later(0.3, self._beat, number)\n\n"
                "    async def _attend(",
            ),
        ),
        "tests/integration/worker/test_leases.py::"
        "test_a_handler_that_blocks_for_three_leases_runs_once",
        "busy_async",
    ),
}


def main(names: list[str]) -> int:
    """Try these mutants, or all; returns how many went unnoticed."""
    unknown = [name for name in names if name not in MUTANTS]
    if unknown:
        print(f"there is no mutant {unknown[0]}; there are {', '.join(MUTANTS)}")
        return 1
    with tempfile.TemporaryDirectory() as directory:
        results = [is_noticed(name, Path(directory) / name) for name in names or MUTANTS]
    print(f"{sum(results)} of {len(results)} were noticed")
    return results.count(False)


def is_noticed(name: str, copy: Path) -> bool:
    """Whether the test passes on a copy and fails on the mutant."""
    mutant = MUTANTS[name]
    for part in ("src", "tests", "tools", "examples"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    before, said = run(mutant, copy)
    if before != 0:
        print(f"{name}: the test does not pass as it is:\n{said[-2000:]}")
        return False
    for edit in mutant.edits:
        path = copy / edit.file
        text = path.read_text()
        if text.count(edit.old) != edit.places:
            print(f"{name}: {edit.file} has {text.count(edit.old)} places with {edit.old!r}")
            return False
        path.write_text(text.replace(edit.old, edit.new))
    after, said = run(mutant, copy)
    failed = [line for line in said.splitlines() if line.startswith("FAILED")]
    verdict = failed[0] if failed else f"NOT NOTICED (status {after})"
    print(f"{name}: {mutant.what}: {verdict}", flush=True)
    return bool(failed)


def run(mutant: Mutant, copy: Path) -> tuple[int, str]:
    """Run the test of a mutant until its first failure."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no"]
    done = subprocess.run(
        [*command, mutant.test, "-k", mutant.only],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
