import msgspec

from conformance.scene import BOOM, LEASE_SECONDS, Scene
from mainspring.domain.ids import make_id
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Failed, Retried
from mainspring.ports.store import DeadLetterFilter

ALL = DeadLetterFilter()


async def test_a_dead_letter_keeps_what_is_needed_to_understand_it(scene: Scene) -> None:
    task_id = await scene.fail(payload='{"user_id": 7}', priority=3, queue="letters")
    scene.clock.advance(86400)
    task = await scene.get(task_id)
    assert msgspec.json.decode(task.payload) == {"user_id": 7}
    assert (task.status, task.priority, task.queue) == (TaskStatus.FAILED, 3, "letters")
    assert [attempt.traceback for attempt in task.attempts] == ["Traceback: no"]
    assert await scene.store.dead_letter_count() == 1


async def test_a_replayed_task_runs_again_with_all_its_attempts(scene: Scene) -> None:
    lease = await scene.running(max_retries=1, payload='{"n": 1}')
    assert await scene.settle(lease, Retried(BOOM, 0.0))
    (second,) = await scene.claim()
    assert await scene.settle(second, Retried(BOOM, 0.0))
    task_id = lease.id
    scene.clock.advance(100)
    assert await scene.store.replay(DeadLetterFilter(ids=(task_id,)), 10) == [task_id]
    task = await scene.get(task_id)
    assert (task.status, task.ready, task.attempt_count) == (TaskStatus.PENDING, True, 0)
    assert task.scheduled_at == scene.clock.now()
    assert task.completed_at is None
    assert await scene.store.dead_letter_count() == 0
    (again,) = await scene.claim()
    assert (again.attempt, again.payload) == (1, '{"n": 1}')
    assert again.fencing_token > second.fencing_token
    assert await scene.settle(again, Retried(BOOM, 0.0))
    assert (await scene.get(task_id)).status is TaskStatus.RETRYING


async def test_no_old_token_is_valid_after_a_replay(scene: Scene) -> None:
    lease = await scene.running(max_retries=0)
    scene.clock.advance(LEASE_SECONDS + 1)
    await scene.store.rescue(10)
    await scene.store.replay(ALL, 10)
    assert not await scene.complete(lease)
    (owner,) = await scene.claim(worker_id="w2")
    assert owner.fencing_token > lease.fencing_token
    assert not await scene.complete(lease)
    assert not await scene.held(lease)
    assert await scene.complete(owner)


async def test_replay_with_a_corrected_payload(scene: Scene) -> None:
    task_id = await scene.fail(payload='{"n": "x"}')
    await scene.store.replay(ALL, 10, '{"n": 5}')
    (lease,) = await scene.claim()
    assert lease.payload == '{"n": 5}'
    assert bytes((await scene.get(task_id)).payload) == b'{"n": 5}'


async def test_replay_by_type(scene: Scene) -> None:
    await scene.fail()
    lease = await one_of_type(scene, "sms")
    assert await scene.store.replay(DeadLetterFilter(task_type="sms"), 10) == [lease]
    assert await scene.store.replay(DeadLetterFilter(task_type="sms"), 10) == []
    assert await scene.store.dead_letter_count() == 1


async def one_of_type(scene: Scene, task_type: str) -> object:
    task_id = await scene.submit(task_type=task_type, max_retries=0)
    (lease,) = await scene.claim(task_types=(task_type,))
    assert await scene.settle(lease, Retried(BOOM, 0.0))
    return task_id


async def test_ids_and_type_must_both_fit(scene: Scene) -> None:
    mail = await scene.fail()
    assert await scene.store.replay(DeadLetterFilter(ids=(mail,), task_type="sms"), 10) == []
    assert await scene.store.replay(DeadLetterFilter(ids=()), 10) == []
    assert await scene.store.dead_letter_count() == 1


async def test_replay_and_discard_in_bounded_steps(scene: Scene) -> None:
    ids = {await scene.fail() for _ in range(5)}
    replayed = [await scene.store.replay(ALL, 2) for _ in range(2)]
    discarded = [await scene.store.discard(ALL, 2, "old") for _ in range(2)]
    assert [len(found) for found in (*replayed, *discarded)] == [2, 2, 1, 0]
    assert {task_id for found in (*replayed, *discarded) for task_id in found} == ids


async def test_a_sweep_passes_a_task_once_though_it_fails_again_meanwhile(scene: Scene) -> None:
    ids = sorted([await scene.fail() for _ in range(4)])
    assert await scene.store.replay(ALL, 2) == ids[:2]
    for lease in await scene.claim(2):
        assert await scene.settle(lease, Failed(BOOM))
    rest = DeadLetterFilter(after=ids[1])
    assert await scene.store.replay(rest, 10) == ids[2:]
    assert await scene.store.discard(DeadLetterFilter(after=ids[3]), 10, "done") == []
    assert await scene.store.discard(ALL, 10, "given up") == ids[:2]


async def test_only_dead_letters_are_replayed_or_discarded(scene: Scene) -> None:
    completed = await scene.running()
    await scene.complete(completed)
    waiting = await scene.submit(delay_seconds=10.0)
    which = DeadLetterFilter(ids=(completed.id, waiting, make_id(1, 1)))
    before = [await scene.get(completed.id), await scene.get(waiting)]
    assert await scene.store.replay(which, 10) == []
    assert await scene.store.discard(which, 10, "no") == []
    assert [await scene.get(completed.id), await scene.get(waiting)] == before


async def test_a_discarded_task_is_final_and_says_why(scene: Scene) -> None:
    task_id = await scene.fail()
    assert await scene.store.discard(DeadLetterFilter(ids=(task_id,)), 10, "was a test") == [
        task_id
    ]
    task = await scene.get(task_id)
    assert (task.status, task.reason) == (TaskStatus.DISCARDED, "was a test")
    assert len(task.attempts) == 1
    assert await scene.store.replay(ALL, 10) == []
    assert await scene.store.dead_letter_count() == 0
    assert await scene.ids_of(status=TaskStatus.DISCARDED) == {task_id}


async def test_a_cancellation_asked_for_before_does_not_haunt_a_replay(scene: Scene) -> None:
    lease = await scene.running()
    await scene.cancel(lease.id, "stop")
    assert await scene.settle(lease, Failed(BOOM))
    await scene.store.replay(ALL, 10)
    assert not (await scene.get(lease.id)).cancel_requested
    (again,) = await scene.claim()
    assert await scene.settle(again, Retried(BOOM, 0.0))
    assert (await scene.get(lease.id)).status is TaskStatus.RETRYING
