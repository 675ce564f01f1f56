"""A task with a webhook leaves one delivery for each of its ends that the webhook wants."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import msgspec
import pytest

from conformance.scene import BOOM, LEASE_SECONDS, Scene
from mainspring.domain.ids import partition_of
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Cancelled, Ending, Failed, Lease, Released, Retried, Task
from mainspring.domain.webhooks import (
    DELIVERY_QUEUE,
    DELIVERY_RETRIES,
    DELIVERY_TYPE,
    Event,
    Webhook,
    delivery_id,
    instant_text,
)
from mainspring.ports.store import DeadLetterFilter

HOOK = Webhook(url="https://example.com/hook?a=b", sign="acme")


async def deliveries(scene: Scene) -> list[Task]:
    page = await scene.page(50, task_type=DELIVERY_TYPE)
    return sorted(page.tasks, key=lambda task: task.task_id)


async def told(scene: Scene) -> list[dict[str, Any]]:
    return [msgspec.json.decode(task.payload)["body"] for task in await deliveries(scene)]


async def hooked(scene: Scene, **fields: Any) -> Lease:
    return await scene.running(**{"webhook": HOOK, **fields})


async def cancel_waiting(scene: Scene) -> UUID:
    task_id = await scene.submit(webhook=HOOK)
    await scene.cancel(task_id, "not needed")
    return task_id


def ending(end: Ending, **fields: Any) -> Callable[[Scene], Awaitable[UUID]]:
    async def settle(scene: Scene) -> UUID:
        lease = await hooked(scene, **fields)
        assert await scene.settle(lease, end)
        return lease.id

    return settle


def cancelled_then(end: Ending) -> Callable[[Scene], Awaitable[UUID]]:
    async def settle(scene: Scene) -> UUID:
        lease = await hooked(scene)
        await scene.cancel(lease.id, "not needed")
        assert await scene.settle(lease, end)
        return lease.id

    return settle


async def expire(scene: Scene) -> UUID:
    lease = await hooked(scene, max_retries=0)
    scene.clock.advance(LEASE_SECONDS + 1)
    await scene.store.rescue(10)
    return lease.id


async def expire_cancelled(scene: Scene) -> UUID:
    lease = await hooked(scene)
    await scene.cancel(lease.id, "not needed")
    scene.clock.advance(LEASE_SECONDS + 1)
    await scene.store.rescue(10)
    return lease.id


async def complete(scene: Scene) -> UUID:
    lease = await hooked(scene)
    assert await scene.complete(lease)
    return lease.id


ENDS = {
    "complete": (complete, Event.COMPLETED, None, None, 1),
    "last retry": (ending(Retried(BOOM, 0), max_retries=0), Event.FAILED, BOOM.message, None, 1),
    "fail": (ending(Failed(BOOM)), Event.FAILED, BOOM.message, None, 1),
    "cancelled by itself": (ending(Cancelled("no")), Event.CANCELLED, None, "no", 1),
    "cancelled": (cancelled_then(Cancelled()), Event.CANCELLED, None, "not needed", 1),
    "retry": (cancelled_then(Retried(BOOM, 0)), Event.CANCELLED, None, "not needed", 1),
    "release": (cancelled_then(Released()), Event.CANCELLED, None, "not needed", 1),
    "cancelled while waiting": (cancel_waiting, Event.CANCELLED, None, "not needed", 0),
    "lost lease": (
        expire,
        Event.FAILED,
        "LeaseExpired: worker w1 stopped renewing its lease",
        None,
        1,
    ),
    "lost lease of a cancelled one": (expire_cancelled, Event.CANCELLED, None, "not needed", 1),
}


@pytest.mark.parametrize("way", ENDS)
async def test_every_end_is_told(scene: Scene, way: str) -> None:
    end, event, error, reason, attempts = ENDS[way]
    task_id = await end(scene)
    ended = await scene.get(task_id)
    (delivery,) = await deliveries(scene)
    now = scene.clock.now()
    assert ended.status == event.value
    assert delivery.task_id == delivery_id(task_id, ended.fencing_token, event, now)
    assert partition_of(delivery.task_id) == partition_of(task_id)
    assert (delivery.status, delivery.ready, delivery.queue) == (
        TaskStatus.PENDING,
        True,
        DELIVERY_QUEUE,
    )
    assert (delivery.max_retries, delivery.timeout, delivery.priority) == (DELIVERY_RETRIES, 30, 5)
    assert msgspec.json.decode(delivery.payload) == {
        "url": HOOK.url,
        "sign": "acme",
        "body": {
            "event": event.value,
            "task_id": str(task_id),
            "task_type": "mail",
            "queue": "default",
            "attempt_count": attempts,
            "ended_at": instant_text(now),
            "error": error,
            "reason": reason,
        },
    }
    (lease,) = await scene.claim(task_types=(DELIVERY_TYPE,))
    assert (lease.id, lease.backoff.max_seconds) == (delivery.task_id, 3600.0)
    assert await scene.complete(lease)
    assert len(await deliveries(scene)) == 1


async def test_what_does_not_end_is_not_told(scene: Scene) -> None:
    lease = await hooked(scene)
    assert await scene.settle(lease, Retried(BOOM, 0))
    (lease,) = await scene.claim()
    assert await scene.settle(lease, Released())
    (lease,) = await scene.claim()
    scene.clock.advance(LEASE_SECONDS + 1)
    await scene.store.rescue(10)
    assert not await scene.complete(lease)
    assert await deliveries(scene) == []


async def test_each_end_of_a_dead_letter_is_told(scene: Scene) -> None:
    """Failed, replayed and failed again, and then given up."""
    task_id = await scene.fail(webhook=HOOK)
    which = DeadLetterFilter(ids=(task_id,))
    assert await scene.store.replay(which, 10) == [task_id]
    (lease,) = await scene.claim()
    assert await scene.settle(lease, Failed(BOOM))
    assert await scene.store.discard(which, 10, "hopeless") == [task_id]
    bodies = await told(scene)
    events = sorted((body["event"], body["reason"]) for body in bodies if body["error"])
    assert events == [("discarded", "hopeless"), ("failed", None), ("failed", None)]


async def test_a_replayed_task_tells_that_it_completed(scene: Scene) -> None:
    task_id = await scene.fail(webhook=HOOK)
    await scene.store.replay(DeadLetterFilter(), 10)
    (lease,) = await scene.claim()
    assert (lease.id, await scene.complete(lease)) == (task_id, True)
    bodies = await told(scene)
    assert sorted((body["event"], body["error"]) for body in bodies) == [
        ("completed", None),
        ("failed", BOOM.message),
    ]


async def test_only_the_events_that_are_wanted(scene: Scene) -> None:
    hook = Webhook(url=HOOK.url, events=(Event.FAILED,), queue="acme~webhooks")
    await scene.complete(await hooked(scene, webhook=hook, queue="acme~mail"))
    assert await deliveries(scene) == []
    await scene.fail(webhook=hook, queue="acme~mail")
    (delivery,) = await deliveries(scene)
    assert delivery.queue == "acme~webhooks"
    payload = msgspec.json.decode(delivery.payload)
    assert (payload["sign"], payload["body"]["queue"]) == (None, "mail")


async def test_a_batch_in_which_some_have_one(scene: Scene) -> None:
    tasks = [scene.task(webhook=HOOK if number % 3 == 0 else None) for number in range(9)]
    await scene.store.submit(tasks)
    await scene.store.submit(tasks)
    for lease in await scene.claim(20):
        assert await scene.complete(lease)
    bodies = await told(scene)
    assert sorted(body["task_id"] for body in bodies) == sorted(
        str(task.id) for task in tasks if task.webhook is not None
    )


async def test_a_key_that_was_used_keeps_the_webhook_of_that_time(scene: Scene) -> None:
    first = await scene.submit(key="k", fingerprint="f")
    again = scene.task(key="k", fingerprint="f", webhook=HOOK)
    (answer,) = await scene.store.submit([again])
    assert (answer.id, answer.is_new) == (first, False)
    (lease,) = await scene.claim()
    assert await scene.complete(lease)
    assert await deliveries(scene) == []
