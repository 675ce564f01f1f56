from datetime import timedelta

import pytest

from conformance.scene import LEASE_SECONDS, LostReplyError, Scene, ref
from mainspring.domain.ids import make_id
from mainspring.domain.task import CancelState, LeaseRef, Released, Renewal
from mainspring.ports.hooks import HookPoint


async def test_a_heartbeat_extends_the_lease_from_now(scene: Scene) -> None:
    lease = await scene.running()
    scene.clock.advance(20)
    answers = await scene.store.heartbeat([ref(lease)], 45.0)
    assert answers == [Renewal(lease.id, lease.fencing_token, held=True)]
    expires_at = (await scene.get(lease.id)).lease_expires_at
    assert expires_at == scene.clock.now() + timedelta(seconds=45)


async def test_an_extended_lease_is_not_rescued_at_its_first_end(scene: Scene) -> None:
    lease = await scene.running()
    scene.clock.advance(LEASE_SECONDS - 1)
    await scene.store.heartbeat([ref(lease)], LEASE_SECONDS)
    scene.clock.advance(LEASE_SECONDS - 1)
    assert await scene.store.rescue(10) == []
    assert await scene.complete(lease)


async def test_a_lease_that_expired_but_was_not_rescued_is_extended(scene: Scene) -> None:
    lease = await scene.running()
    scene.clock.advance(3 * LEASE_SECONDS)
    (answer,) = await scene.store.heartbeat([ref(lease)], LEASE_SECONDS)
    assert answer.held
    assert await scene.store.rescue(10) == []


async def test_a_heartbeat_of_a_rescued_task_is_refused_and_changes_nothing(scene: Scene) -> None:
    lease = await scene.running()
    scene.clock.advance(LEASE_SECONDS + 1)
    await scene.store.rescue(10)
    (answer,) = await scene.store.heartbeat([ref(lease)], LEASE_SECONDS)
    assert not answer.held
    (again,) = await scene.claim(worker_id="w2")
    before = await scene.get(lease.id)
    scene.clock.advance(1)
    (answer,) = await scene.store.heartbeat([ref(lease)], LEASE_SECONDS)
    assert not answer.held
    assert await scene.get(lease.id) == before
    assert await scene.held(again)


async def test_a_worker_is_told_of_its_leases_whatever_it_heard_before(scene: Scene) -> None:
    await scene.submit_many(5)
    mine = await scene.claim(3, worker_id="w1")
    (other,) = await scene.claim(1, worker_id="w2")
    await scene.complete(mine[0])
    assert {*await scene.store.leases_of("w1")} == {ref(mine[1]), ref(mine[2])}
    assert await scene.store.leases_of("w2") == [ref(other)]
    assert await scene.store.leases_of("w3") == []
    scene.clock.advance(LEASE_SECONDS + 1)
    assert {*await scene.store.leases_of("w1")} == {ref(mine[1]), ref(mine[2])}
    await scene.store.rescue(10)
    assert await scene.store.leases_of("w1") == []


async def test_answers_come_in_the_order_of_the_questions(scene: Scene) -> None:
    await scene.submit_many(5)
    leases = await scene.claim(5)
    await scene.complete(leases[1])
    await scene.cancel(leases[3].id)
    stale = LeaseRef(leases[4].id, leases[4].fencing_token - 1)
    nobody = LeaseRef(make_id(1, 1), 1)
    refs = [ref(leases[3]), nobody, ref(leases[1]), stale, ref(leases[0]), ref(leases[4])]
    expected = [
        Renewal(asked.id, asked.fencing_token, held=held, cancel_requested=cancel)
        for asked, held, cancel in zip(
            refs,
            (True, False, False, False, True, True),
            (True, False, False, False, False, False),
            strict=True,
        )
    ]
    assert await scene.store.watch(refs) == expected
    assert await scene.store.heartbeat(refs, LEASE_SECONDS) == expected


async def test_watching_extends_nothing(scene: Scene) -> None:
    lease = await scene.running()
    before = (await scene.get(lease.id)).lease_expires_at
    scene.clock.advance(10)
    assert await scene.held(lease)
    assert (await scene.get(lease.id)).lease_expires_at == before
    scene.clock.advance(LEASE_SECONDS)
    assert len(await scene.store.rescue(10)) == 1
    assert not await scene.held(lease)


async def test_a_higher_token_than_was_given_out_owns_nothing(scene: Scene) -> None:
    lease = await scene.running()
    forged = LeaseRef(lease.id, lease.fencing_token + 1)
    (answer,) = await scene.store.heartbeat([forged], LEASE_SECONDS)
    assert not answer.held


async def test_a_task_that_waits_again_is_held_by_nobody(scene: Scene) -> None:
    lease = await scene.running()
    assert await scene.settle(lease, Released())
    assert not await scene.held(lease)
    (answer,) = await scene.store.heartbeat([ref(lease)], LEASE_SECONDS)
    assert not answer.held
    task = await scene.get(lease.id)
    assert (task.worker_id, task.lease_expires_at) == (None, None)


async def test_no_leases_no_answers(scene: Scene) -> None:
    assert await scene.store.heartbeat([], LEASE_SECONDS) == []
    assert await scene.store.watch([]) == []


async def test_a_heartbeat_whose_reply_is_lost_has_extended_the_lease(scene: Scene) -> None:
    lease = await scene.running()
    scene.clock.advance(LEASE_SECONDS - 1)
    scene.trap.breaking = {HookPoint.HEARTBEAT_AFTER_REPLY}
    with pytest.raises(LostReplyError):
        await scene.store.heartbeat([ref(lease)], LEASE_SECONDS)
    scene.clock.advance(LEASE_SECONDS - 1)
    assert await scene.store.rescue(10) == []


async def test_the_holder_learns_of_a_cancellation_by_heartbeat_and_by_watching(
    scene: Scene,
) -> None:
    lease = await scene.running()
    assert await scene.cancel(lease.id) is CancelState.CANCELLING
    for answers in (
        await scene.store.heartbeat([ref(lease)], LEASE_SECONDS),
        await scene.store.watch([ref(lease)]),
    ):
        assert answers == [Renewal(lease.id, lease.fencing_token, held=True, cancel_requested=True)]


async def test_progress_is_shown_until_the_lease_is_lost(scene: Scene) -> None:
    lease = await scene.running()
    assert await scene.store.progress(ref(lease), '{"done": 3, "of": 10}')
    progress = (await scene.get(lease.id)).progress
    assert progress is not None
    assert bytes(progress) == b'{"done": 3, "of": 10}'
    assert await scene.store.progress(ref(lease), '{"done": 4}')
    scene.clock.advance(LEASE_SECONDS + 1)
    await scene.store.rescue(10)
    before = await scene.get(lease.id)
    assert not await scene.store.progress(ref(lease), '{"done": 5}')
    assert await scene.get(lease.id) == before


async def test_progress_of_a_finished_or_unknown_task_is_refused(scene: Scene) -> None:
    lease = await scene.running()
    await scene.complete(lease)
    assert not await scene.store.progress(ref(lease), "1")
    assert not await scene.store.progress(LeaseRef(make_id(1, 1), 1), "1")
