"""The store in memory with one guard broken at a time, to see whether the suites notice.

A mutant is a change of one place of the source. It has to be found by the conformance suite, and
if it breaks what one can see from outside under faults, by some seed of the simulation as well.
"""

import importlib
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import pytest


class Mutant(NamedTuple):
    """What is broken where."""

    name: str
    module: str
    old: str
    new: str
    is_simulated: bool = True

    def __str__(self) -> str:
        return self.name


MUTANTS = (
    Mutant(
        "the token is not compared",
        "tables",
        "return row if row.fencing_token == fencing_token else None",
        "return row",
    ),
    Mutant(
        "owners may write to tasks that do not run",
        "tables",
        "if row is None or row.status is not TaskStatus.RUNNING:",
        "if row is None:",
    ),
    Mutant(
        "waiting tasks alone can be cancelled, but so can final ones",
        "tables",
        "        if not allows(transition, row.status):\n            return False\n",
        "        if not allows(transition, row.status) and row.status is not TaskStatus.FAILED:\n"
        "            return False\n",
    ),
    Mutant(
        "tasks start early",
        "tasks",
        "due = tables.waiting.due(wanted, now)",
        "due = tables.waiting.due(wanted, now + timedelta(seconds=1))",
    ),
    Mutant("a claim raises no token", "row", "        self.fencing_token += 1\n", ""),
    Mutant("a claim charges no attempt", "row", "        self.attempt_count += 1\n", ""),
    Mutant(
        "leases that still run are rescued",
        "tables",
        "self._expiries[0][0] <= now:",
        "self._expiries[0][0] <= now + timedelta(seconds=3):",
    ),
    Mutant(
        "a rescue does not see that the lease was extended",
        "tables",
        "if row.status is TaskStatus.RUNNING and row.lease_expires_at == expires_at:",
        "if row.status is TaskStatus.RUNNING:",
    ),
    Mutant("a rescue raises no token", "tasks", "        row.fencing_token += 1\n", ""),
    Mutant(
        "a rescued task may run for ever",
        "tasks",
        "        elif row.exhausted:\n"
        "            self._tables.move(row, Transition.RESCUE_EXHAUSTED)\n",
        "",
    ),
    Mutant(
        "a rescue forgets the cancellation",
        "tasks",
        "        if row.cancel_requested:\n"
        "            self._tables.move(row, Transition.RESCUE_CANCELLED)\n        elif",
        "        if",
    ),
    Mutant(
        "a retry forgets the cancellation",
        "tasks",
        "        if row.cancel_requested:\n"
        "            self._tables.move(row, Transition.CANCEL_RUNNING)\n        elif",
        "        if",
    ),
    Mutant(
        "a release forgets the cancellation",
        "tasks",
        "        if row.cancel_requested:\n"
        "            self._tables.move(row, Transition.CANCEL_RUNNING)\n            return\n",
        "",
    ),
    Mutant(
        "a task may be retried for ever",
        "tasks",
        "        elif row.exhausted:\n            self._tables.move(row, Transition.FAIL)\n",
        "",
    ),
    Mutant("the last attempt is not run", "row", "> self.max_retries", ">= self.max_retries"),
    Mutant("a release charges the attempt", "tasks", "        row.attempt_count -= 1\n", ""),
    Mutant(
        "a retry does not wait",
        "tasks",
        "self._tables.move(row, Transition.RETRY, when)",
        "self._tables.move(row, Transition.RETRY)",
    ),
    Mutant(
        "a snooze does not wait",
        "tasks",
        "self._tables.move(row, Transition.SNOOZE, now + timedelta(seconds=delay))",
        "self._tables.move(row, Transition.SNOOZE)",
    ),
    Mutant(
        "a heartbeat extends nothing",
        "tasks",
        "                self._tables.extend(row, lease_seconds)",
        "                pass",
    ),
    Mutant(
        "keys are not looked up",
        "tasks",
        "used = None if task.key is None else self._tables.keys.get(task.key)",
        "used: UsedKey | None = None",
    ),
    Mutant(
        "a key may be used for another task",
        "tasks",
        "conflict = used.fingerprint != task.fingerprint",
        "conflict = False",
    ),
    Mutant(
        "a repeated submission is stored again",
        "tasks",
        "if self._tables.find(task.id) is not None:",
        "if task.id in self._tables.live and False:",
    ),
    Mutant(
        "paused queues are served", "tasks", "            if not paused\n", "            if True\n"
    ),
    Mutant(
        "labels are ignored",
        "tasks",
        "            and not labels_of(queue)\n",
        "",
        is_simulated=False,
    ),
    Mutant(
        "branches of paused queues are served",
        "placement",
        "if not is_meant or self._tables.queues.get(base_of(branch), False):",
        "if not is_meant:",
        is_simulated=False,
    ),
    Mutant(
        "young tasks are anyone's",
        "placement",
        "if not due or min(row.scheduled_at for row in due) <= now - _PATIENCE:",
        "if True:",
        is_simulated=False,
    ),
    Mutant(
        "silent workers are counted on",
        "placement",
        "and worker.seen_at > limit",
        "",
        is_simulated=False,
    ),
    Mutant(
        "tasks without a handler are taken",
        "waiting",
        "            if row.task_type in wanted.task_types:\n                yield row",
        "            if row:\n                yield row",
        is_simulated=False,
    ),
    Mutant(
        "running tasks do not learn of their cancellation",
        "tasks",
        "            row.cancel_requested = True\n",
        "",
    ),
    Mutant(
        "a cancelled task starts all the same",
        "tasks",
        "        if self._tables.move(row, Transition.CANCEL_WAITING):",
        "        if row.status is TaskStatus.PENDING:",
    ),
    Mutant(
        "a refused ending is called accepted",
        "tasks",
        "            return False\n        now = self._tables.now()\n        match",
        "            return True\n        now = self._tables.now()\n        match",
    ),
    Mutant(
        "a replay counts the old attempts",
        "dead_letters",
        "            row.attempt_count = 0\n",
        "",
    ),
    Mutant(
        "a replay is cancelled by an old wish",
        "dead_letters",
        "            row.cancel_requested = False\n",
        "",
        is_simulated=False,
    ),
    Mutant(
        "only the priority decides, not the age",
        "waiting",
        "rows.sort(key=lambda row: (rank(row.priority, row.scheduled_at), row.id.int))",
        "rows.sort(key=lambda row: (row.priority, row.id.int))",
    ),
    Mutant(
        "within a priority the young go first",
        "waiting",
        "rank(row.priority, row.scheduled_at), row.id.int",
        "-row.scheduled_at.timestamp(), row.id.int",
    ),
    Mutant(
        "nobody moves up a level",
        "waiting",
        "for lane, seconds in lane_entries(priority, limit_seconds).items()",
        "for lane, seconds in lane_entries(priority, limit_seconds).items() if seconds == 0",
        is_simulated=False,
    ),
    Mutant(
        "levels are served one after the other",
        "tasks",
        "((served.get(lane, 0) + k) * STEPS[lane], LANES.index(lane), k, lane, row)",
        "(LANES.index(lane), STEPS[lane], k, lane, row)",
        is_simulated=False,
    ),
    Mutant(
        "turns begin anew with each claim",
        "tasks",
        "served.get(lane, 0) + k",
        "k",
        is_simulated=False,
    ),
    Mutant(
        "a task may be older than its submission",
        "tasks",
        "scheduled_at = max(task.scheduled_at, now)",
        "scheduled_at = task.scheduled_at",
    ),
    Mutant(
        "a task may be moved into the past",
        "tasks",
        "when = now if at is None else max(at, now)",
        "when = now if at is None else at",
    ),
    Mutant(
        "a second failure takes the place of the first",
        "row",
        "del self.attempts[1]",
        "del self.attempts[0]",
        is_simulated=False,
    ),
    Mutant(
        "deaths of the process are not counted",
        "row",
        "        self.crash_count += self._counts_as_crash(failure.kind)\n",
        "",
        is_simulated=False,
    ),
    Mutant(
        "what runs takes no place of a limit",
        "groups",
        "limit.concurrency - waiting - counts.running_of(key)",
        "limit.concurrency - waiting",
    ),
    Mutant(
        "the limit of the whole queue is not looked at",
        "groups",
        "(seats if whole == math.inf else seats[: int(whole)])",
        "seats",
    ),
    Mutant(
        "a group has as many places as it has tasks",
        "groups",
        "if counts[key] < rooms[key]:",
        "if True:",
    ),
    Mutant(
        "a task that waits for its next attempt is shown as one that never ran",
        "row",
        "            status=self.status,\n            ready=",
        "            status=TaskStatus.PENDING if self.status in WAITING else self.status,\n"
        "            ready=",
    ),
    Mutant(
        "a schedule makes a task beside a live one with its unique key",
        "plans",
        "if task is None or task.unique_key is None:",
        "if True:",
        is_simulated=False,
    ),
    Mutant(
        "the webhook of a run is forgotten",
        "plans",
        "        tables.webhooks[row.id] = task.webhook\n",
        "",
        is_simulated=False,
    ),
    Mutant(
        "keys of live tasks are forgotten",
        "housekeeping",
        "if used.used_at < horizon and not self._is_live(key)",
        "if used.used_at < horizon",
        is_simulated=False,
    ),
    Mutant(
        "months with young tasks are dropped",
        "housekeeping",
        "if name < oldest_kept and name not in kept",
        "if name < oldest_kept",
        is_simulated=False,
    ),
    Mutant(
        "a page begins again with its last task",
        "reads",
        "bisect_left(ids, before)",
        "bisect_left(ids, before) + 1",
        is_simulated=False,
    ),
)

GUARDS = tuple(mutant for mutant in MUTANTS if mutant.is_simulated)


def plant(mutant: Mutant, patch: pytest.MonkeyPatch) -> None:
    """Replace the functions of the module by those of its changed source."""
    module = importlib.import_module(f"mainspring.adapters.memory.{mutant.module}")
    path = Path(str(module.__file__))
    source = path.read_text()
    assert source.count(mutant.old) == 1, f"{mutant.name}: {source.count(mutant.old)} places"
    changed: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(source.replace(mutant.old, mutant.new), str(path), "exec"), changed)
    for name, value in changed.items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, FunctionType):
            patch.setattr(module, name, value)
        elif isinstance(value, type):
            for member_name, member in vars(value).items():
                if isinstance(member, FunctionType | property):
                    patch.setattr(getattr(module, name), member_name, member)
