import asyncio

import pytest

from conformance.scene import LostReplyError, Scene
from mainspring.domain.task import Submission
from mainspring.ports.hooks import HookPoint


async def test_the_second_submission_of_a_key_gets_the_first_task(scene: Scene) -> None:
    first = await scene.submit(key="order-7", fingerprint="f")
    (answer,) = await scene.store.submit([scene.task(key="order-7", fingerprint="f")])
    assert answer == Submission(first, is_new=False)
    assert await scene.ids_of() == {first}
    assert (await scene.get(first)).key == "order-7"


async def test_a_key_counts_in_first_submissions_too(scene: Scene) -> None:
    task = scene.task(key="order-7", fingerprint="f")
    assert await scene.store.submit([task], first=True) == [Submission(task.id)]
    others = [scene.task(), scene.task(key="order-7", fingerprint="f")]
    others += [scene.task(key="order-7", fingerprint="g")]
    answers = await scene.store.submit(others, first=True)
    assert answers[:2] == [Submission(others[0].id), Submission(task.id, is_new=False)]
    assert answers[2].conflict
    assert await scene.ids_of() == {task.id, others[0].id}


async def test_a_key_used_for_another_task_is_a_conflict(scene: Scene) -> None:
    first = await scene.submit(key="order-7", fingerprint="f")
    (answer,) = await scene.store.submit([scene.task(key="order-7", fingerprint="g")])
    assert (answer.is_new, answer.conflict) == (False, True)
    assert await scene.ids_of() == {first}


async def test_one_key_many_times_in_one_call_makes_one_task(scene: Scene) -> None:
    tasks = [scene.task(key="k", fingerprint="f") for _ in range(5)]
    tasks.insert(2, scene.task(key="other", fingerprint="f"))
    tasks.append(scene.task(key="k", fingerprint="g"))
    answers = await scene.store.submit(tasks)
    made = tasks[0].id
    same = Submission(made, is_new=False)
    assert answers[:6] == [Submission(made), same, Submission(tasks[2].id), same, same, same]
    assert answers[6].conflict
    assert await scene.ids_of() == {made, tasks[2].id}


async def test_of_concurrent_submissions_exactly_one_makes_a_task(scene: Scene) -> None:
    keys = [f"key-{n}" for n in range(10)]
    rounds = [[scene.task(key=key, fingerprint="f") for key in keys] for _ in range(8)]
    for batch in rounds[::2]:
        batch.reverse()
    answers = await asyncio.gather(*(scene.store.submit(batch) for batch in rounds))
    ids: dict[str, set[object]] = {key: set() for key in keys}
    new = 0
    for batch, given in zip(rounds, answers, strict=True):
        for task, answer in zip(batch, given, strict=True):
            assert task.key is not None
            ids[task.key].add(answer.id)
            new += answer.is_new
    assert new == 10
    assert all(len(found) == 1 for found in ids.values())
    assert len(await scene.ids_of()) == 10


async def test_a_key_outlives_its_task(scene: Scene) -> None:
    lease = await scene.running(key="once", fingerprint="f")
    assert await scene.complete(lease)
    (answer,) = await scene.store.submit([scene.task(key="once", fingerprint="f")])
    assert answer == Submission(lease.id, is_new=False)


async def test_a_lost_reply_is_resolved_by_repeating_the_key(scene: Scene) -> None:
    task = scene.task(key="once", fingerprint="f")
    scene.trap.breaking = {HookPoint.SUBMIT_AFTER_COMMIT}
    with pytest.raises(LostReplyError):
        await scene.store.submit([task])
    scene.trap.breaking = set()
    (answer,) = await scene.store.submit([scene.task(key="once", fingerprint="f")])
    assert answer == Submission(task.id, is_new=False)


async def test_keys_are_compared_byte_for_byte(scene: Scene) -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    ids = {await scene.submit(key=key) for key in (composed, decomposed, "Caf\u00e9", "k" * 255)}
    assert len(ids) == 4


async def test_old_keys_are_forgotten_but_not_of_live_tasks(scene: Scene) -> None:
    finished = await scene.running(key="finished")
    await scene.complete(finished)
    await scene.submit(key="waiting", delay_seconds=90 * 86400.0)
    scene.clock.advance(7 * 86400.0)
    assert await scene.store.forget_keys(8.0, 100) == 0
    scene.clock.advance(2 * 86400.0)
    assert await scene.store.forget_keys(8.0, 100) == 1
    assert await scene.store.forget_keys(8.0, 100) == 0
    assert await scene.submit(key="finished") != finished.id
    (answer,) = await scene.store.submit([scene.task(key="waiting")])
    assert not answer.is_new


async def test_keys_are_forgotten_in_bounded_steps(scene: Scene) -> None:
    for lease in [await scene.running(key=f"k{n}") for n in range(5)]:
        await scene.complete(lease)
    scene.clock.advance(10 * 86400.0)
    assert [await scene.store.forget_keys(8.0, 2) for _ in range(4)] == [2, 2, 1, 0]
