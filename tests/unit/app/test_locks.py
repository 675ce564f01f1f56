"""Locks as an app has them: in tests without Redis, and refused where there is none."""

import pytest

from mainspring import LockHeld, Mainspring, Settings, TaskContext
from mainspring.core.registry import Registry
from mainspring.domain.errors import InvalidConfiguration
from mainspring.testing import TestApp
from mainspring.wiring.locks import handler_locker, worker_locks


async def test_handlers_lock_in_memory_in_tests() -> None:
    app = Mainspring()

    @app.task(exclusive=True)
    async def book(ctx: TaskContext) -> list[int]:
        async with ctx.lock("one") as first, ctx.lock("two"):
            with pytest.raises(LockHeld):
                async with ctx.lock("one", wait=0):
                    pass
        async with ctx.lock("one", wait=0) as again:
            return [first.number, again.number]

    async with TestApp(app) as t:
        task = await book.submit()
        await t.run_until_idle()
        done = await task.refresh()
    assert done.status == "completed", done
    assert done.result[0] < done.result[1]


def test_a_worker_with_exclusive_tasks_needs_somewhere_to_keep_locks() -> None:
    app = Mainspring()
    settings = Settings()
    assert worker_locks(settings, app.registry) is None

    @app.task("charge", exclusive=True)
    async def charge() -> None: ...

    with pytest.raises(InvalidConfiguration, match="'charge' is exclusive and redis_url is empty"):
        worker_locks(settings, app.registry)
    assert worker_locks(settings, Registry()) is None


def test_handlers_are_told_that_there_are_no_locks() -> None:
    with pytest.raises(InvalidConfiguration, match="redis_url is empty"):
        handler_locker(Settings())
