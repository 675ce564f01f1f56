import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.system import SystemClock, SystemIds
from mainspring.core.definitions import define
from mainspring.core.group_commit import GroupCommit
from mainspring.core.options import checked_options
from mainspring.core.submission import (
    Submissions,
    build_task,
    complete_options,
    encode_payload,
    raise_conflicts,
)
from mainspring.domain.errors import (
    InvalidValue,
    KeyConflict,
    OutcomeUnknown,
    PayloadTooLarge,
    StoreFull,
    StoreHeldUp,
    StoreUnavailable,
)
from mainspring.domain.ids import key_tail
from mainspring.domain.task import NewTask, Submission

IDS = SystemIds()


@dataclass
class Basket:
    """A value of a caller."""

    fruits: frozenset[str]


def new_task(number: int = 0, key: str | None = None, queue: str | None = None) -> NewTask:
    options = complete_options(checked_options({"key": key, "queue": queue}))
    return build_task(IDS, "count", {"number": number}, options)


class Gate:
    """The store in memory behind a gate that counts, holds up and fails batches."""

    def __init__(self) -> None:
        self.store = MemoryStore(SystemClock())
        self.batches: list[int] = []
        self.firsts: list[bool] = []
        self.failures: list[Exception | None] = []
        self.refused: set[UUID] = set()
        self.held_up: set[UUID] = set()
        self.during: Callable[[], object] | None = None
        self.seen: list[object] = []
        self.open = asyncio.Event()
        self.open.set()
        self.arrived = asyncio.Event()

    async def submit(self, tasks: list[NewTask], *, first: bool = False) -> list[Submission]:
        self.batches.append(len(tasks))
        self.firsts.append(first)
        self.arrived.set()
        if self.during is not None:
            self.seen.append(self.during())
        await self.open.wait()
        if self.failures and (failure := self.failures.pop(0)) is not None:
            raise failure
        if any(task.id in self.refused for task in tasks):
            raise InvalidValue("the store refuses one of them")
        if any(task.id in self.held_up for task in tasks):
            raise StoreHeldUp("somebody holds what one of them needs")
        return await self.store.submit(tasks)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def submissions(gate: Gate) -> Submissions:
    commits: Any = GroupCommit(gate, SystemClock(), timeout_seconds=5)  # type: ignore[arg-type]
    return Submissions(commits)


async def exists(gate: Gate, task: NewTask) -> bool:
    return await gate.store.get(task.id) is not None


class TestBuild:
    def test_defaults(self) -> None:
        task = new_task()
        assert (task.queue, task.priority, task.timeout_seconds, task.max_retries) == (
            "default",
            5,
            300,
            3,
        )
        assert task.payload == '{"number":0}'
        assert task.fingerprint is None

    def test_a_key_decides_the_partition_and_has_a_fingerprint(self) -> None:
        task = new_task(key="welcome")
        assert task.id.int & 0xFFFF == key_tail("welcome")
        assert task.fingerprint is not None

    def test_ids_rise(self) -> None:
        ids = [new_task(key=f"k{n}" if n % 2 else None).id for n in range(5000)]
        assert [one.int >> 16 for one in ids] == sorted({one.int >> 16 for one in ids})

    def test_python_values_become_json(self) -> None:
        payload = {"when": datetime(2026, 1, 1, tzinfo=UTC), "tags": ("a",), "id": UUID(int=1)}
        expected = (
            '{"when":"2026-01-01T00:00:00Z","tags":["a"],'
            '"id":"00000000-0000-0000-0000-000000000001"}'
        )
        assert encode_payload(payload) == expected

    @pytest.mark.parametrize(
        ("payload", "field"),
        [
            ({"a": "\x00"}, "payload.a"),
            ({"a": ["\ud800"]}, "payload.a[0]"),
            ({"a": {"b": float("nan")}}, "payload.a.b"),
            ({"a": float("inf")}, "payload.a"),
            ({"a": 10**64}, "payload.a"),
            ({"a": object()}, "payload.a"),
            ({"a": [b"x"]}, "payload.a[0]"),
            ({"a": {"b": bytearray(b"x")}}, "payload.a.b"),
            ({"a": {1, 2}}, "payload.a"),
            ({"a": Basket(fruits=frozenset({"fig"}))}, "payload.a.fruits"),
            ({"a\x00": 1}, "payload"),
            ([1], "payload"),
            ("text", "payload"),
            (None, "payload"),
        ],
    )
    def test_traps_name_their_place(self, payload: Any, field: str) -> None:
        with pytest.raises(InvalidValue) as caught:
            encode_payload(payload)
        assert caught.value.field == field

    def test_what_would_come_back_as_something_else_is_refused_with_a_way_out(self) -> None:
        with pytest.raises(InvalidValue, match=r"payload\.a is .* of the type bytes; JSON has no"):
            encode_payload({"a": b"x"})
        with pytest.raises(InvalidValue, match="of the type set; JSON has no sets; give a list"):
            encode_payload({"a": {1}})

    def test_nesting_is_bounded(self) -> None:
        deep: Any = 1
        for _ in range(70):
            deep = [deep]
        with pytest.raises(InvalidValue, match="64 levels"):
            encode_payload({"a": deep})

    def test_size_is_bounded(self) -> None:
        with pytest.raises(PayloadTooLarge, match="262,144"):
            encode_payload({"a": "x" * 262_144})

    def test_the_signature_is_held(self) -> None:
        def handler(user_id: int, email: str = "") -> None: ...

        definition = define("mail", handler)
        assert encode_payload({"user_id": 1}, definition) == '{"user_id":1}'
        for payload, field in (
            ({"user_id": "1"}, "payload.user_id"),
            ({}, "payload"),
            ({"user_id": 1, "mail": ""}, "payload"),
        ):
            with pytest.raises(InvalidValue, match="does not fit task type 'mail'") as caught:
                encode_payload(payload, definition)
            assert caught.value.field == field


class TestGroupCommit:
    async def test_a_lone_submission_is_sent_at_once(
        self, gate: Gate, submissions: Submissions
    ) -> None:
        task = new_task()
        assert await submissions.submit(task) == Submission(task.id)
        assert gate.batches == [1]

    async def test_what_arrives_meanwhile_travels_together(
        self, gate: Gate, submissions: Submissions
    ) -> None:
        gate.open.clear()
        first = asyncio.create_task(submissions.submit(new_task()))
        await gate.arrived.wait()
        others = [asyncio.create_task(submissions.submit(new_task(n))) for n in range(50)]
        await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(first, *others)
        assert gate.batches == [1, 50]

    async def test_batches_are_bounded_and_two_fly_at_a_time(
        self, gate: Gate, submissions: Submissions
    ) -> None:
        gate.open.clear()
        tasks = [new_task(n) for n in range(10_000)]
        all_of_them = asyncio.create_task(submissions.submit_many(tasks))
        for _ in range(10):
            await asyncio.sleep(0)
        assert gate.batches == [1000, 1000]
        gate.open.set()
        stored = await all_of_them
        assert [one.id for one in stored] == [task.id for task in tasks]
        assert gate.batches == [1000] * 10

    async def test_more_than_10_000_are_refused(self, submissions: Submissions) -> None:
        with pytest.raises(PayloadTooLarge, match="10,000"):
            await submissions.submit_many([new_task()] * 10_001)

    async def test_one_bad_task_fails_alone(self, gate: Gate, submissions: Submissions) -> None:
        gate.open.clear()
        tasks = [new_task(n) for n in range(40)]
        gate.refused = {tasks[17].id}
        calls = [asyncio.create_task(submissions.submit(task)) for task in tasks]
        await gate.arrived.wait()
        gate.open.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [n for n, one in enumerate(results) if isinstance(one, Exception)] == [17]
        assert isinstance(results[17], InvalidValue)

    async def test_a_cancelled_caller_loses_nobody_else(
        self, gate: Gate, submissions: Submissions
    ) -> None:
        gate.open.clear()
        first = asyncio.create_task(submissions.submit(new_task()))
        await gate.arrived.wait()
        waiting = [new_task(n) for n in range(3)]
        calls = [asyncio.create_task(submissions.submit(task)) for task in waiting]
        await asyncio.sleep(0)
        first.cancel()
        calls[1].cancel()
        gate.open.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(results[1], asyncio.CancelledError)
        assert [await exists(gate, task) for task in waiting] == [True, False, True]

    async def test_an_outage_is_waited_out(self, gate: Gate, submissions: Submissions) -> None:
        gate.failures = [StoreUnavailable("down"), StoreUnavailable("down")]
        task = new_task()
        await submissions.submit(task)
        assert await exists(gate, task)

    async def test_an_outage_is_bounded(self, gate: Gate, submissions: Submissions) -> None:
        gate.failures = [StoreUnavailable("down")] * 100
        with pytest.raises(StoreUnavailable, match="nothing was stored"):
            await submissions.submit(new_task(), timeout=0.2)

    async def test_no_answer_is_no_denial(self, gate: Gate, submissions: Submissions) -> None:
        gate.open.clear()
        task = new_task()
        with pytest.raises(OutcomeUnknown, match=str(task.id)):
            await submissions.submit(task, timeout=0.1)
        gate.open.set()

    async def test_without_a_key_an_unknown_outcome_is_told(
        self, gate: Gate, submissions: Submissions
    ) -> None:
        gate.failures = [OutcomeUnknown("cut")]
        task = new_task()
        with pytest.raises(OutcomeUnknown, match="key") as caught:
            await submissions.submit(task)
        assert str(task.id) in caught.value.message
        assert gate.batches == [1]

    async def test_with_a_key_it_is_sent_again(self, gate: Gate, submissions: Submissions) -> None:
        gate.failures = [OutcomeUnknown("cut")]
        task = new_task(key="k")
        assert (await submissions.submit(task)).id == task.id
        assert gate.batches == [1, 1]

    async def test_a_task_is_new_to_the_store_once(
        self, gate: Gate, submissions: Submissions
    ) -> None:
        gate.failures = [StoreUnavailable("down"), OutcomeUnknown("cut")]
        await submissions.submit(new_task(key="k"), first=True)
        assert gate.firsts == [True, False, False]
        await submissions.submit(new_task(), first=True)
        await submissions.submit(new_task())
        assert gate.firsts[3:] == [True, False]

    async def test_what_somebody_else_may_have_makes_the_whole_batch_so(
        self, gate: Gate, submissions: Submissions
    ) -> None:
        await asyncio.gather(
            submissions.submit(new_task(1), first=True), submissions.submit(new_task(2))
        )
        assert (gate.batches, gate.firsts) == ([2], [False])

    async def test_who_is_alone_needs_no_task_of_the_event_loop(
        self, gate: Gate, submissions: Submissions
    ) -> None:
        await submissions.submit(new_task())
        before = asyncio.all_tasks()
        gate.during = lambda: asyncio.all_tasks() - before
        await submissions.submit(new_task())
        assert gate.seen == [set()]

    async def test_an_outage_is_waited_out_alone(
        self, gate: Gate, submissions: Submissions
    ) -> None:
        await submissions.submit(new_task())
        gate.failures = [StoreUnavailable("down"), StoreUnavailable("down")]
        task = new_task()
        await submissions.submit(task)
        assert await exists(gate, task)
        gate.failures = [OutcomeUnknown("cut")]
        with pytest.raises(OutcomeUnknown):
            await submissions.submit(new_task())

    async def test_who_gives_up_alone_holds_up_nobody(
        self, gate: Gate, submissions: Submissions
    ) -> None:
        await submissions.submit(new_task())
        gate.open.clear()
        gate.arrived.clear()
        alone = asyncio.create_task(submissions.submit(new_task()))
        await gate.arrived.wait()
        others = [asyncio.create_task(submissions.submit(new_task(n))) for n in range(3)]
        await asyncio.sleep(0)
        alone.cancel()
        gate.open.set()
        await asyncio.gather(*others)
        assert gate.batches == [1, 1, 3]
        with pytest.raises(asyncio.CancelledError):
            await alone
        await submissions.close()

    async def test_no_answer_alone_is_no_denial(self, gate: Gate, submissions: Submissions) -> None:
        await submissions.submit(new_task())
        gate.open.clear()
        with pytest.raises(OutcomeUnknown, match="may or may not"):
            await submissions.submit(new_task(), timeout=0.1)

    async def test_other_failures_reach_every_caller(
        self, gate: Gate, submissions: Submissions
    ) -> None:
        gate.failures = [StoreFull("no room")]
        results = await asyncio.gather(
            *(submissions.submit(new_task(n)) for n in range(3)), return_exceptions=True
        )
        assert [type(one) for one in results] == [StoreFull] * 3

    async def test_a_failure_of_many_says_how_many_were_stored(
        self, gate: Gate, submissions: Submissions
    ) -> None:
        gate.failures = [None, StoreFull("no room")]
        with pytest.raises(StoreFull, match="1,000 of 2,000 tasks were stored"):
            await submissions.submit_many([new_task(n) for n in range(2000)])


class TestKeys:
    async def test_the_same_again_is_the_same_task(self, submissions: Submissions) -> None:
        first, again = new_task(1, "k"), new_task(1, "k")
        assert await submissions.submit(first) == Submission(first.id)
        assert await submissions.submit(again) == Submission(first.id, is_new=False)

    async def test_something_else_under_the_key_is_a_conflict(
        self, submissions: Submissions
    ) -> None:
        first = new_task(1, "k")
        await submissions.submit(first)
        with pytest.raises(KeyConflict, match=str(first.id)):
            await submissions.submit(new_task(2, "k"))

    async def test_a_conflict_among_many_costs_the_others_nothing(
        self, gate: Gate, submissions: Submissions
    ) -> None:
        await submissions.submit(new_task(1, "k"))
        tasks = [new_task(5), new_task(2, "k"), new_task(6)]
        stored = await submissions.submit_many(tasks)
        assert [one.conflict for one in stored] == [False, True, False]
        assert await exists(gate, tasks[2])
        with pytest.raises(KeyConflict, match=r"tasks\[1\] \('k'\)"):
            raise_conflicts(tasks, stored)

    async def test_what_is_held_up_waits_apart(self, gate: Gate, submissions: Submissions) -> None:
        """The key of one task, then a queue that somebody else is just making."""
        for task in (new_task(key="k"), new_task(queue="new")):
            others = [new_task(n) for n in range(4)]
            gate.held_up = {task.id}
            waiting = asyncio.create_task(submissions.submit(task))
            await asyncio.gather(*map(submissions.submit, others))
            assert not waiting.done()
            await submissions.submit(new_task())
            gate.held_up.clear()
            await waiting
            assert await exists(gate, task)
        await submissions.close()

    async def test_what_is_held_up_alone_is_told_so_in_the_end(
        self, gate: Gate, submissions: Submissions
    ) -> None:
        await submissions.submit(new_task())
        task = new_task(key="k")
        gate.held_up = {task.id}
        with pytest.raises(StoreUnavailable, match="a transaction of somebody else"):
            await submissions.submit(task, timeout=0.2)
        await submissions.close()
