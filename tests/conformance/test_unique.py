"""Unique keys: while a task with one is live, submitting another answers with that one."""

import pytest

from conformance.scene import BOOM, LostReplyError, Scene
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import CancelState, Completed, Failed, Released, Retried, Submission
from mainspring.domain.webhooks import Webhook
from mainspring.ports.hooks import HookPoint
from mainspring.ports.store import DeadLetterFilter

HOOK = Webhook(url="https://a.example/hook")


async def test_the_live_task_with_the_key_is_the_answer(scene: Scene) -> None:
    first = await scene.submit(unique_key="sync:7")
    other = scene.task(unique_key="sync:7", task_type="other", queue="elsewhere", priority=0)
    assert await scene.store.submit([other]) == [Submission(first, is_new=False)]
    assert await scene.store.submit([other], first=True) == [Submission(first, is_new=False)]
    assert await scene.store.get(other.id) is None
    assert await scene.ids_of() == {first}
    task = await scene.get(first)
    assert (task.unique_key, task.group_key, task.held) == ("sync:7", None, False)


async def test_a_key_belongs_to_its_group(scene: Scene) -> None:
    tasks = [scene.task(unique_key="k", group_key=group) for group in (None, "a", "b")]
    assert await scene.store.submit(tasks) == [Submission(task.id) for task in tasks]
    again = [scene.task(unique_key="k", group_key=group) for group in ("b", None, "a")]
    answers = await scene.store.submit(again)
    assert [answer.id for answer in answers] == [tasks[2].id, tasks[0].id, tasks[1].id]
    assert not any(answer.is_new for answer in answers)
    task = await scene.get(tasks[1].id)
    assert (task.unique_key, task.group_key, task.status) == ("k", "a", TaskStatus.PENDING)


async def test_of_one_batch_the_first_has_the_key(scene: Scene) -> None:
    keys = ["b", "a", None, "b", "a", "b", None]
    tasks = [scene.task(unique_key=key) for key in keys]
    answers = await scene.store.submit(tasks)
    b, a = tasks[0].id, tasks[1].id
    assert [answer.id for answer in answers] == [b, a, tasks[2].id, b, a, b, tasks[6].id]
    assert [answer.is_new for answer in answers] == [True, True, True, False, False, False, True]
    assert await scene.ids_of() == {b, a, tasks[2].id, tasks[6].id}


@pytest.mark.parametrize("ending", [Completed(), Failed(BOOM)])
async def test_a_key_is_free_when_its_task_has_ended(
    scene: Scene, ending: Completed | Failed
) -> None:
    first = await scene.submit(unique_key="k")
    (lease,) = await scene.claim()
    assert await scene.submit(unique_key="k") == first
    assert await scene.settle(lease, ending)
    second = await scene.submit(unique_key="k")
    assert second != first
    assert await scene.submit(unique_key="k") == second


async def test_a_cancelled_task_frees_its_key(scene: Scene) -> None:
    first = await scene.submit(unique_key="k", group_key="g")
    assert await scene.cancel(first) is CancelState.CANCELLED
    assert await scene.submit(unique_key="k", group_key="g") != first


async def test_a_task_that_waits_again_keeps_its_key(scene: Scene) -> None:
    first = await scene.submit(unique_key="k")
    (lease,) = await scene.claim()
    assert await scene.settle(lease, Retried(BOOM, 5.0))
    assert await scene.submit(unique_key="k") == first
    scene.clock.advance(5)
    (lease,) = await scene.claim()
    assert await scene.settle(lease, Released(5.0))
    assert await scene.submit(unique_key="k") == first
    scene.clock.advance(5)
    (lease,) = await scene.claim()
    scene.clock.advance(61)
    await scene.store.rescue(10)
    assert await scene.submit(unique_key="k") == first
    assert await scene.ids_of() == {first}


async def test_a_submission_whose_reply_was_lost_may_be_repeated(scene: Scene) -> None:
    task = scene.task(unique_key="k")
    scene.trap.breaking.add(HookPoint.SUBMIT_AFTER_COMMIT)
    with pytest.raises(LostReplyError):
        await scene.store.submit([task])
    scene.trap.breaking.clear()
    again = Submission(task.id, is_new=False)
    assert await scene.store.submit([task]) == [again]
    (lease,) = await scene.claim()
    assert await scene.complete(lease)
    assert await scene.store.submit([task]) == [again]
    # Also when the key is that of another one by now.
    other = await scene.submit(unique_key="k")
    assert await scene.store.submit([task]) == [again]
    assert await scene.ids_of() == {task.id, other}


async def test_a_repeated_task_that_has_run_leaves_the_key_to_others_of_its_batch(
    scene: Scene,
) -> None:
    ran = scene.task(unique_key="k")
    await scene.store.submit([ran])
    (lease,) = await scene.claim()
    assert await scene.complete(lease)
    fresh = [scene.task(unique_key="k"), scene.task(unique_key="k")]
    answers = await scene.store.submit([ran, *fresh])
    assert answers == [
        Submission(ran.id, is_new=False),
        Submission(fresh[0].id),
        Submission(fresh[0].id, is_new=False),
    ]
    assert (await scene.get(ran.id)).status is TaskStatus.COMPLETED
    assert (await scene.get(fresh[0].id)).status is TaskStatus.PENDING


async def test_keys_groups_and_webhooks_in_one_batch(scene: Scene) -> None:
    live = await scene.submit(unique_key="u")
    tasks = [
        scene.task(),
        scene.task(key="k", fingerprint="f"),
        scene.task(unique_key="u", webhook=HOOK),
        scene.task(group_key="g", key="l", fingerprint="f"),
        scene.task(key="k", fingerprint="g"),
        scene.task(unique_key="v", webhook=HOOK),
    ]
    answers = await scene.store.submit(tasks)
    assert [answer.is_new for answer in answers] == [True, True, False, True, False, True]
    assert [answer.conflict for answer in answers] == [False] * 4 + [True, False]
    assert answers[2].id == live
    assert len(await scene.ids_of()) == 5


async def test_lists_show_one_group(scene: Scene) -> None:
    mine = {await scene.submit(group_key="a") for _ in range(3)}
    await scene.submit(group_key="b")
    await scene.submit()
    assert await scene.ids_of(group_key="a") == mine
    assert await scene.ids_of(group_key="a", status=TaskStatus.PENDING) == mine
    await scene.cancel(min(mine))
    cancelled = {"status": TaskStatus.CANCELLED, "task_type": "mail", "group_key": "a"}
    assert await scene.ids_of(**cancelled) == {min(mine)}
    assert await scene.ids_of(group_key="A") == set()


async def test_a_dead_letter_stays_one_while_its_key_is_taken(scene: Scene) -> None:
    dead = await scene.fail(unique_key="k")
    live = await scene.submit(unique_key="k", delay_seconds=60)
    assert await scene.store.replay(DeadLetterFilter(ids=(dead,)), 10) == []
    assert await scene.store.replay(DeadLetterFilter(), 10) == []
    assert (await scene.get(dead)).status is TaskStatus.FAILED
    await scene.cancel(live)
    assert await scene.store.replay(DeadLetterFilter(ids=(dead,)), 10) == [dead]
    assert (await scene.get(dead)).unique_key == "k"
    assert await scene.submit(unique_key="k") == dead


async def test_of_dead_letters_with_one_key_the_first_is_replayed(scene: Scene) -> None:
    dead = sorted([await scene.fail(unique_key="k") for _ in range(3)])
    plain = await scene.fail()
    assert await scene.store.replay(DeadLetterFilter(), 10) == sorted([dead[0], plain])
    statuses = await scene.store.statuses(dead)
    assert [statuses[one] for one in dead] == [
        TaskStatus.PENDING,
        TaskStatus.FAILED,
        TaskStatus.FAILED,
    ]
    # Those that are left do not stand in the way of others.
    for lease in await scene.claim(2):
        assert await scene.complete(lease)
    more = await scene.fail()
    await scene.submit(unique_key="k")
    assert await scene.store.replay(DeadLetterFilter(), 1) == [more]
    assert len(await scene.store.discard(DeadLetterFilter(), 10, "enough")) == 2
