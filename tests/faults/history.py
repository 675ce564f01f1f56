"""Whether what happened kept the promises: a checker of histories.

The truth on executions is the log that handlers write themselves with O_APPEND, not the tables of
the product. It is compared with what the submitting processes logged and with the final tables.
All times are seconds of the one wall clock of this machine, which PostgreSQL uses as well.

The numbers are those of the invariants:

I1   no accepted task is lost
I2   no stored task was never submitted
I3   every accepted task ends in exactly one final state
I4   a final state is final
I6   nothing starts early
I8   fencing: what was accepted carries the newest token of its task
I9   at most one live lease for each task
I10  two executions of one task overlap only if the lease of the first had expired
I11  attempts are the leases that were charged, and only the last one leads to the dead letters
I12  no lease executes twice, and a success has an execution that reached its end
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

FINAL = {"completed", "failed", "cancelled", "discarded"}
FINAL_KINDS = {"final", "invalid_payload", "invalid_result"}


@dataclass(kw_only=True)
class Execution:
    """One run of a handler, as the handler logged it."""

    task: str
    attempt: int
    token: int
    pid: int
    started: float
    ended: float | None = None
    outcome: str | None = None
    """How it says it ended: `done`, or `stopped` when it was interrupted."""


@dataclass(kw_only=True, frozen=True)
class Failed:
    """One failed attempt, as the store kept it with the task."""

    attempt: int
    kind: str
    started: float
    ended: float


@dataclass(kw_only=True, frozen=True)
class Row:
    """One task in one of the tables after the end of the test."""

    task: str
    status: str
    attempt_count: int
    max_retries: int
    token: int
    created: float
    started: float | None = None
    completed: float | None = None
    failed: tuple[Failed, ...] = ()


@dataclass(kw_only=True)
class History:
    """Everything that is known of a run."""

    accepted: set[str] = field(default_factory=set)
    """Tasks whose submission was acknowledged."""

    uncertain: set[str] = field(default_factory=set)
    """Tasks whose submission had no answer, or an honest "unknown"."""

    due: dict[str, float] = field(default_factory=dict)
    """When a task may start at the earliest, where that is later than its submission."""

    executions: list[Execution] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    deaths: dict[int, float] = field(default_factory=dict)
    """When which process was killed."""

    def of(self, task: str) -> list[Execution]:
        """The executions of a task by token."""
        return sorted((e for e in self.executions if e.task == task), key=lambda e: e.token)

    def violations(self) -> list[str]:
        """Every broken promise, as a sentence that begins with its number."""
        by_task: Mapping[str, list[Execution]] = defaultdict(list)
        for execution in sorted(self.executions, key=lambda e: (e.token, e.started)):
            by_task[execution.task].append(execution)
        found = [*_lost(self), *_invented(self)]
        for row in self.rows:
            runs = by_task[row.task]
            for check in _CHECKS:
                found.extend(f"{text} ({row})" for text in check(self, row, runs))
        return sorted(found)


def _lost(history: History) -> Iterator[str]:
    places: dict[str, int] = defaultdict(int)
    for row in history.rows:
        places[row.task] += 1
    for task in history.accepted:
        if not places[task]:
            yield f"I1: {task} was acknowledged and is not in the store"
    for task, count in places.items():
        if count > 1:
            yield f"I3: {task} is in {count} tables at once"


def _invented(history: History) -> Iterator[str]:
    known = history.accepted | history.uncertain
    for row in history.rows:
        if row.task not in known:
            yield f"I2: nobody submitted {row.task}"


def _not_final(history: History, row: Row, runs: list[Execution]) -> Iterator[str]:
    del runs
    if row.task in history.accepted and row.status not in FINAL:
        yield f"I3: {row.task} is {row.status} at the end"


def _after_the_end(history: History, row: Row, runs: list[Execution]) -> Iterator[str]:
    del history
    for run in runs:
        if row.completed is not None and run.started > row.completed:
            yield f"I4: {row.task} started {run.started - row.completed:.3f} s after its end"


def _early(history: History, row: Row, runs: list[Execution]) -> Iterator[str]:
    due = max(row.created, history.due.get(row.task, 0.0))
    for run in runs:
        earliest = max([due, *(f.ended for f in row.failed if f.attempt < run.attempt)])
        if run.started < earliest:
            yield f"I6: {row.task} attempt {run.attempt} began {earliest - run.started:.3f} s early"


def _stale(history: History, row: Row, runs: list[Execution]) -> Iterator[str]:
    del history
    newest = max((run.token for run in runs), default=0)
    if row.token < newest:
        yield f"I8: {row.task} has token {row.token} and {newest} had been given out"
    started = [run.started for run in runs]
    if started != sorted(started):
        yield f"I8: the tokens of {row.task} do not rise with its executions"


def _two_leases(history: History, row: Row, runs: list[Execution]) -> Iterator[str]:
    del history, runs
    begins = [failed.started for failed in row.failed[1:]]
    if row.status == "completed" and row.started is not None:
        begins.append(row.started)
    for before, begin in zip(row.failed, begins, strict=False):
        if begin < before.ended:
            yield f"I9: a lease of {row.task} began before attempt {before.attempt} had ended"


def _overlapping(history: History, row: Row, runs: list[Execution]) -> Iterator[str]:
    expired = {f.attempt: f.ended for f in row.failed if f.kind == "lease_expired"}
    for first, second in pairwise(runs):
        end = first.ended if first.ended is not None else history.deaths.get(first.pid)
        if end is not None and second.started >= end:
            continue
        if second.started < expired.get(first.attempt, float("inf")):
            yield (
                f"I10: attempts {first.attempt} and {second.attempt} of {row.task} overlap, "
                "and the first lease had not expired"
            )


def _miscounted(history: History, row: Row, runs: list[Execution]) -> Iterator[str]:
    del history
    count, most = row.attempt_count, row.max_retries + 1
    recorded = [failed.attempt for failed in row.failed]
    ended = row.status in {"completed", "failed"}
    expected = count - 1 if row.status == "completed" else count
    if recorded != list(range(1, len(recorded) + 1)) or (ended and len(recorded) != expected):
        yield f"I11: {row.task} counts {count} attempts and records {recorded} as failed"
    if count > most:
        yield f"I11: {row.task} had {count} attempts, at most {most} were allowed"
    if max((run.attempt for run in runs), default=0) > count:
        yield f"I11: {row.task} executed more attempts than the {count} it counts"
    is_final = bool(row.failed) and row.failed[-1].kind in FINAL_KINDS
    if row.status == "failed" and count != most and not is_final:
        yield f"I11: {row.task} is a dead letter after {count} of {most} attempts"


def _executed_twice(history: History, row: Row, runs: list[Execution]) -> Iterator[str]:
    del history
    if len({run.token for run in runs}) < len(runs):
        yield f"I12: {row.task} executed twice under one lease"
    if row.status == "completed" and not any(
        run.token == row.token and run.outcome == "done" for run in runs
    ):
        yield f"I12: {row.task} is completed without an execution that reached its end"


_CHECKS: tuple[Callable[[History, Row, list[Execution]], Iterator[str]], ...] = (
    _not_final,
    _after_the_end,
    _early,
    _stale,
    _two_leases,
    _overlapping,
    _miscounted,
    _executed_twice,
)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a log of JSON lines; the last line may have been cut off by a kill."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    return [json.loads(line) for line in whole.splitlines()]


def read_executions(records: Iterable[dict[str, Any]]) -> list[Execution]:
    """The executions in the log that handlers wrote."""
    by_lease: dict[tuple[str, int, int], Execution] = {}
    found = []
    for record in records:
        lease = (record["task"], record["token"], record["pid"])
        if record["event"] == "start":
            execution = Execution(
                task=record["task"],
                attempt=record["attempt"],
                token=record["token"],
                pid=record["pid"],
                started=record["at"],
            )
            by_lease[lease] = execution
            found.append(execution)
        elif record["event"] in {"done", "stopped"}:
            by_lease[lease].ended = record["at"]
            by_lease[lease].outcome = record["event"]
    return found


def read_failed(attempts: str | None) -> tuple[Failed, ...]:
    """The failed attempts in the text of a row's column `attempts`."""
    return tuple(
        Failed(
            attempt=one["attempt"],
            kind=one["kind"],
            started=datetime.fromisoformat(one["started_at"]).timestamp(),
            ended=datetime.fromisoformat(one["ended_at"]).timestamp(),
        )
        for one in json.loads(attempts or "[]")
    )
