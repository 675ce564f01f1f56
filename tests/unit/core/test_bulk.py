import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.system import SystemClock, SystemIds
from mainspring.core.bulk import AHEAD_BATCHES
from mainspring.core.group_commit import GroupCommit
from mainspring.core.options import DEFAULTS
from mainspring.core.submission import Submissions, TaskMaker
from mainspring.domain.errors import InvalidValue, OutcomeUnknown
from mainspring.domain.task import NewTask, Submission

IDS = SystemIds()
MAKER = TaskMaker("count", DEFAULTS, None)


class Gate:
    """The store in memory behind a gate that counts, holds up and fails batches."""

    def __init__(self) -> None:
        self.store = MemoryStore(SystemClock())
        self.batches: list[int] = []
        self.made_when_sent: list[int] = []
        self.failures: list[Exception | None] = []
        self.made = 0
        self.open = asyncio.Event()
        self.open.set()

    async def submit(self, tasks: list[NewTask], *, first: bool = False) -> list[Submission]:
        assert first
        self.batches.append(len(tasks))
        self.made_when_sent.append(self.made)
        await self.open.wait()
        if self.failures and (failure := self.failures.pop(0)) is not None:
            raise failure
        return await self.store.submit(tasks)

    def tasks(self, count: int, wrong: int | None = None) -> Iterator[NewTask]:
        """Make so many tasks, one of which cannot be made."""
        for number in range(count):
            self.made += 1
            yield MAKER.make(IDS, {"number": {1} if number == wrong else number})

    async def stored(self) -> int:
        return sum([state.ready for state in await self.store.queues()])


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def submissions(gate: Gate) -> Submissions:
    commits: Any = GroupCommit(gate, SystemClock(), timeout_seconds=5)  # type: ignore[arg-type]
    return Submissions(commits)


@pytest.mark.parametrize("count", [0, 1, 99, 100, 1000, 1001, 12_345])
async def test_every_task_is_answered_in_order(
    gate: Gate, submissions: Submissions, count: int
) -> None:
    tasks = list(gate.tasks(count))
    stored = await submissions.submit_each(iter(tasks), first=True)
    assert [one.id for one in stored] == [task.id for task in tasks]
    assert sum(gate.batches) == count
    assert max(gate.batches, default=0) <= 1000


async def test_a_batch_is_sent_while_the_next_one_is_made(
    gate: Gate, submissions: Submissions
) -> None:
    await submissions.submit_each(gate.tasks(3000), first=True)
    first, *_, last = gate.made_when_sent
    assert 1000 <= first < 2000
    assert last == 3000


async def test_no_more_is_made_than_the_store_keeps_up_with(
    gate: Gate, submissions: Submissions
) -> None:
    gate.open.clear()
    call = asyncio.create_task(submissions.submit_each(gate.tasks(20_000), first=True))
    for _ in range(200):
        await asyncio.sleep(0)
    assert gate.made == AHEAD_BATCHES * 1000
    gate.open.set()
    assert len(await call) == 20_000


async def test_what_cannot_be_made_ends_it_and_says_what_was_stored(
    gate: Gate, submissions: Submissions
) -> None:
    with pytest.raises(InvalidValue, match=r"JSON has no sets.*\(2,000 tasks were stored before"):
        await submissions.submit_each(gate.tasks(5000, wrong=2500), first=True)
    assert (gate.made, await gate.stored()) == (2501, 2000)


async def test_an_error_of_the_caller_is_passed_on_with_what_was_stored(
    gate: Gate, submissions: Submissions
) -> None:
    def tasks() -> Iterator[NewTask]:
        yield from gate.tasks(1000)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        await submissions.submit_each(tasks(), first=True)
    assert caught.value.__notes__ == ["1,000 tasks were stored before it"]


async def test_a_batch_that_fails_is_told_and_the_others_are_stored(
    gate: Gate, submissions: Submissions
) -> None:
    gate.failures = [None, OutcomeUnknown("cut"), None]
    with pytest.raises(OutcomeUnknown, match="2,000 of 3,000 tasks were stored"):
        await submissions.submit_each(gate.tasks(3000), first=True)
    assert await gate.stored() == 2000


async def test_who_gives_up_leaves_nothing_behind(gate: Gate, submissions: Submissions) -> None:
    gate.open.clear()
    call = asyncio.create_task(submissions.submit_each(gate.tasks(9000), first=True))
    for _ in range(100):
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    gate.open.set()
    await submissions.close()
    # What was on its way arrives; what waited for it was never sent.
    assert gate.batches == [1000, 1000]
