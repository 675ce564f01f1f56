"""Groups: their tasks start evenly, and only as far as limits leave room."""

import asyncio
from collections import Counter

import pytest

from conformance.scene import BOOM, LEASE_SECONDS, Scene
from mainspring.domain.limits import Limit
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Lease, Released, Retried


def keys_of(leases: list[Lease]) -> Counter[str | None]:
    return Counter(lease.group_key for lease in leases)


async def test_a_task_of_a_group_is_claimed_like_any_other(scene: Scene) -> None:
    task_id = await scene.submit(group_key="acme", payload='{"n": 1}', priority=4)
    (lease,) = await scene.claim(5)
    assert (lease.id, lease.group_key, lease.payload, lease.attempt) == (
        task_id, "acme", '{"n": 1}', 1
    )  # fmt: skip
    task = await scene.get(task_id)
    assert (task.status, task.group_key, task.held) == (TaskStatus.RUNNING, "acme", False)
    assert await scene.complete(lease)
    task = await scene.get(task_id)
    assert (task.status, task.group_key) == (TaskStatus.COMPLETED, "acme")


@pytest.mark.one_store
async def test_groups_start_evenly_many(scene: Scene) -> None:
    await scene.submit_many(40, group_key="big")
    scene.clock.advance(1)
    await scene.submit_many(5, group_key="small")
    await scene.submit_many(10, group_key="middle")
    assert keys_of(await scene.claim(15)) == {"big": 5, "small": 5, "middle": 5}
    assert keys_of(await scene.claim(10)) == {"big": 5, "middle": 5}
    assert keys_of(await scene.claim(100)) == {"big": 30}
    assert await scene.claim(5) == []


@pytest.mark.one_store
async def test_a_group_that_comes_later_has_no_credit_for_its_absence(scene: Scene) -> None:
    await scene.submit_many(60, group_key="old")
    assert keys_of(await scene.claim(30)) == {"old": 30}
    await scene.submit_many(60, group_key="new")
    started = keys_of(await scene.claim(20))
    assert 9 <= started["new"] <= 11


async def test_the_best_of_a_group_comes_first(scene: Scene) -> None:
    await scene.store.set_limits("default", group=Limit(concurrency=1))
    late = await scene.submit(group_key="a", priority=5)
    early = await scene.submit(group_key="a", priority=1)
    (lease,) = await scene.claim(5)
    assert lease.id == early
    assert await scene.complete(lease)
    (lease,) = await scene.claim(5)
    assert lease.id == late


async def test_no_more_of_a_group_run_than_its_limit(scene: Scene) -> None:
    await scene.store.set_limits("default", group=Limit(concurrency=2))
    await scene.submit_many(5, group_key="a")
    await scene.submit_many(3, group_key="b")
    leases = await scene.claim(10)
    assert keys_of(leases) == {"a": 2, "b": 2}
    assert await scene.claim(10) == []
    done = next(lease for lease in leases if lease.group_key == "a")
    assert await scene.complete(done)
    assert keys_of(await scene.claim(10)) == {"a": 1}
    assert await scene.claim(10) == []


@pytest.mark.one_store
async def test_no_more_of_a_queue_run_than_its_limit(scene: Scene) -> None:
    await scene.store.set_limits("default", whole=Limit(concurrency=3))
    await scene.submit_many(4)
    await scene.submit_many(4, group_key="a")
    await scene.submit(queue="other")
    leases = await scene.claim(10)
    assert Counter(lease.queue for lease in leases) == {"default": 3, "other": 1}
    assert await scene.claim(10) == []
    for lease in leases:
        assert await scene.complete(lease)
    assert len(await scene.claim(10)) == 3


@pytest.mark.one_store
async def test_a_limit_on_a_full_queue_holds_from_the_next_claim_on(scene: Scene) -> None:
    await scene.submit_many(20)
    running = await scene.claim(4)
    await scene.store.set_limits("default", whole=Limit(concurrency=5))
    assert len(await scene.claim(10)) == 1
    assert await scene.claim(10) == []
    for lease in running:
        assert await scene.complete(lease)
    assert len(await scene.claim(10)) == 4
    await scene.store.set_limits("default", whole=Limit())
    assert len(await scene.claim(100)) == 11


async def test_a_group_may_have_a_limit_of_its_own(scene: Scene) -> None:
    await scene.store.set_limits("default", group=Limit(concurrency=1))
    await scene.store.set_group_limit("default", "big", Limit(concurrency=3))
    await scene.submit_many(5, group_key="big")
    await scene.submit_many(5, group_key="small")
    assert keys_of(await scene.claim(10)) == {"big": 3, "small": 1}
    await scene.store.set_group_limit("default", "big", None)
    assert await scene.claim(10) == []
    await scene.store.set_group_limit("default", "small", Limit())
    assert keys_of(await scene.claim(10)) == {"small": 4}


async def test_a_retry_a_snooze_and_a_rescue_leave_the_room_to_others(scene: Scene) -> None:
    await scene.store.set_limits("default", group=Limit(concurrency=1))
    first = await scene.submit(group_key="a")
    await scene.submit_many(3, group_key="a", priority=6)
    (lease,) = await scene.claim(5)
    assert await scene.settle(lease, Retried(BOOM, 30.0))
    task = await scene.get(first)
    assert (task.status, task.held, task.ready) == (TaskStatus.RETRYING, False, False)
    (lease,) = await scene.claim(5)
    assert await scene.settle(lease, Released(20.0))
    (lease,) = await scene.claim(5)
    assert await scene.claim(5) == []
    scene.clock.advance(LEASE_SECONDS + 1)
    assert [rescued.id for rescued in await scene.store.rescue(10)] == [lease.id]
    (lease,) = await scene.claim(5)
    assert (lease.id, lease.attempt) == (first, 2)


@pytest.mark.one_store
async def test_what_is_held_says_so_and_is_counted_as_ready(scene: Scene) -> None:
    await scene.store.set_limits("default", group=Limit(concurrency=1))
    ids = await scene.submit_many(3, group_key="a")
    (lease,) = await scene.claim(5)
    rest = set(ids) - {lease.id}
    for task_id in rest:
        task = await scene.get(task_id)
        assert (task.status, task.ready, task.held) == (TaskStatus.PENDING, True, True)
    assert await scene.ids_of(status=TaskStatus.PENDING) == rest
    assert await scene.ids_of(ready=True) == rest
    assert {str(status) for status in (await scene.store.statuses(ids)).values()} == {
        "pending", "running"
    }  # fmt: skip
    (queue,) = await scene.store.queues()
    assert (queue.ready, queue.running, queue.scheduled) == (2, 1, 0)


async def test_what_is_held_can_be_cancelled_and_moved(scene: Scene) -> None:
    await scene.store.set_limits("default", group=Limit(concurrency=1))
    ids = await scene.submit_many(3, group_key="a")
    (lease,) = await scene.claim(5)
    one, other = set(ids) - {lease.id}
    assert await scene.cancel(one) == "cancelled"
    later = scene.clock.now().replace(year=scene.clock.now().year + 1)
    assert await scene.store.reschedule(other, later) is TaskStatus.PENDING
    assert await scene.complete(lease)
    assert await scene.claim(5) == []
    assert await scene.store.reschedule(other, None) is TaskStatus.PENDING
    assert [lease.id for lease in await scene.claim(5)] == [other]


async def test_a_paused_queue_admits_nothing(scene: Scene) -> None:
    await scene.submit_many(2, group_key="a")
    await scene.store.pause("default")
    assert await scene.claim(5) == []
    await scene.store.resume("default")
    assert len(await scene.claim(5)) == 2


async def test_only_what_the_worker_can_take_is_admitted(scene: Scene) -> None:
    await scene.store.set_limits("default", group=Limit(concurrency=1))
    await scene.submit(group_key="a", task_type="unknown", priority=0)
    known = await scene.submit(group_key="a")
    assert [lease.id for lease in await scene.claim(5)] == [known]
    assert await scene.claim(5, task_types=("unknown",)) == []


async def test_groups_that_the_worker_cannot_take_anything_of_hide_nothing(scene: Scene) -> None:
    for n in range(60):
        await scene.submit(group_key=f"unknown {n}", task_type="unknown")
    await scene.claim(1)
    scene.clock.advance(1)
    known = await scene.submit(group_key="known")
    assert [lease.id for lease in await scene.claim(1)] == [known]


async def test_a_group_may_have_nothing_but_tasks_that_need_labels(scene: Scene) -> None:
    task_id = await scene.submit(group_key="a", queue="rendering@gpu")
    assert await scene.claim(5) == []
    assert [lease.id for lease in await scene.claim(5, labels=("gpu",))] == [task_id]


async def test_what_needs_labels_is_admitted_for_workers_that_offer_them(scene: Scene) -> None:
    await scene.store.set_limits("default", group=Limit(concurrency=1))
    with_label = await scene.submit(group_key="a", queue="default@gpu")
    scene.clock.advance(1)
    without = await scene.submit(group_key="a")
    (lease,) = await scene.claim(5)
    assert (lease.id, lease.queue) == (without, "default")
    assert await scene.claim(5, labels=("gpu",)) == []
    assert await scene.complete(lease)
    assert await scene.claim(5) == []
    assert [lease.id for lease in await scene.claim(5, labels=("gpu",))] == [with_label]


@pytest.mark.one_store
async def test_no_more_start_than_the_rate_allows(scene: Scene) -> None:
    await scene.store.set_limits("default", whole=Limit(rate=2.0, burst=3))
    await scene.submit_many(20, group_key="a")
    assert len(await scene.claim(10)) == 3
    assert await scene.claim(10) == []
    scene.clock.advance(0.501)
    assert len(await scene.claim(10)) == 1
    scene.clock.advance(10)
    assert len(await scene.claim(10)) == 3


async def test_no_more_of_a_group_start_than_its_rate_allows(scene: Scene) -> None:
    await scene.store.set_limits("default", group=Limit(rate=1.0))
    await scene.submit_many(5, group_key="a")
    await scene.submit_many(5, group_key="b")
    assert keys_of(await scene.claim(10)) == {"a": 1, "b": 1}
    claim = await scene.ask(10)
    assert claim.leases == []
    assert claim.next_due_seconds is not None
    assert 0 < claim.next_due_seconds <= 1.001
    scene.clock.advance(1.001)
    assert keys_of(await scene.claim(10)) == {"a": 1, "b": 1}


async def test_tasks_of_the_future_come_when_they_are_due(scene: Scene) -> None:
    await scene.submit(group_key="a", delay_seconds=10.0)
    claim = await scene.ask(5)
    assert (claim.leases, claim.next_due_seconds) == ([], 10.0)
    scene.clock.advance(10)
    assert len(await scene.claim(5)) == 1


@pytest.mark.one_store
async def test_many_that_claim_at_once_never_pass_a_limit(scene: Scene) -> None:
    await scene.store.set_limits("default", whole=Limit(concurrency=7), group=Limit(concurrency=3))
    for key in "abcd":
        await scene.submit_many(20, group_key=key)
    for _ in range(10):
        claims = await asyncio.gather(*(scene.claim(5, worker_id=f"w{n}") for n in range(6)))
        leases = [lease for claim in claims for lease in claim]
        assert len(leases) <= 7
        assert max(keys_of(leases).values()) <= 3
        for lease in leases:
            assert await scene.complete(lease)
