from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from conformance.scene import BOOM, LEASE_SECONDS, Scene
from mainspring.domain.limits import Limit
from mainspring.domain.task import Released, Retried
from mainspring.ports.store import DeadLetterFilter, Hint, Wakeups


@asynccontextmanager
async def listening(scene: Scene) -> AsyncIterator[Wakeups]:
    wakeups = scene.store.wakeups()
    try:
        await settled(wakeups, scene)
        yield wakeups
    finally:
        await wakeups.close()


async def settled(wakeups: Wakeups, scene: Scene) -> None:
    """Wait until the listener hears; a first hint may be lost while it connects."""
    for _ in range(20):
        scene.store.announce()
        if await wakeups.wait(0.5):
            return
    pytest.fail("no hint arrived")


async def release(scene: Scene) -> None:
    await scene.settle((await scene.claim())[0], Released())


async def retry(scene: Scene) -> None:
    await scene.settle((await scene.claim())[0], Retried(BOOM, 0.0))


async def reschedule(scene: Scene) -> None:
    await scene.store.reschedule(await scene.submit(delay_seconds=3600.0), None)


async def rescue(scene: Scene) -> None:
    await scene.claim()
    scene.clock.advance(LEASE_SECONDS + 1)
    await scene.store.rescue(10)


async def replay(scene: Scene) -> None:
    (lease,) = await scene.claim()
    await scene.settle(lease, Retried(BOOM, 0.0))
    await scene.store.replay(DeadLetterFilter(), 10)


async def resume(scene: Scene) -> None:
    await scene.store.pause("default")
    await scene.store.resume("default")


async def limit(scene: Scene) -> None:
    await scene.store.set_limits("default", whole=Limit(rate=9.0))


async def limit_group(scene: Scene) -> None:
    await scene.store.set_group_limit("default", "acme", Limit(rate=9.0))


async def submit(scene: Scene) -> None:
    await scene.submit()


@pytest.mark.parametrize(
    "happening", [submit, release, retry, reschedule, rescue, replay, resume, limit, limit_group]
)
async def test_whoever_waits_is_told_that_tasks_are_due(
    scene: Scene, happening: Callable[[Scene], Awaitable[None]]
) -> None:
    await scene.submit(max_retries=0 if happening is replay else 3)
    async with listening(scene) as wakeups:
        await happening(scene)
        assert Hint.READY in await wakeups.wait(5.0)


async def test_the_worker_of_a_running_task_is_told_of_its_cancellation(scene: Scene) -> None:
    lease = await scene.running()
    async with listening(scene) as wakeups:
        await scene.cancel(lease.id)
        hints = await wakeups.wait(5.0)
        assert Hint.CANCEL in hints or Hint.CANCEL in await wakeups.wait(5.0)


async def test_every_listener_is_told(scene: Scene) -> None:
    listeners = [scene.store.wakeups() for _ in range(3)]
    for wakeups in listeners:
        await settled(wakeups, scene)
    scene.store.announce()
    for wakeups in listeners:
        assert Hint.READY in await wakeups.wait(5.0)
        await wakeups.close()
        await wakeups.close()
