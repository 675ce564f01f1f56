import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mainspring import InvalidValue, Mainspring, MainspringError, Settings, TaskStatus
from mainspring.sync import LoopThread, run_in_place
from mainspring.testing import TestApp


@pytest.fixture
def loop_thread() -> Any:
    thread = LoopThread()
    yield thread
    thread.stop()


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def raising() -> None:
    raise InvalidValue("no")


def test_a_coroutine_runs_elsewhere_and_answers_here(loop_thread: LoopThread) -> None:
    assert loop_thread.run(answer(5)) == 5
    with pytest.raises(InvalidValue):
        loop_thread.run(raising())


def test_threads_share_one_loop(loop_thread: LoopThread) -> None:
    async def loop_id() -> int:
        return id(asyncio.get_running_loop())

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(lambda _: loop_thread.run(loop_id()), range(64)))
    assert len(ids) == 1


def test_it_can_be_stopped_and_used_again(loop_thread: LoopThread) -> None:
    loop_thread.run(answer(1))
    loop_thread.stop()
    assert not loop_thread.is_running()
    assert loop_thread.run(answer(2)) == 2


def test_a_forked_child_has_a_loop_of_its_own(loop_thread: LoopThread) -> None:
    loop_thread.run(answer(1))
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - it is the child's coverage that is not measured
        os.write(writer, b"ok" if loop_thread.run(answer(7)) == 7 else b"no")
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reader, 2) == b"ok"
    os.close(reader)
    os.close(writer)
    assert loop_thread.run(answer(3)) == 3


async def test_in_a_coroutine_it_says_what_to_do(loop_thread: LoopThread) -> None:
    with pytest.raises(MainspringError, match="await the same method"):
        loop_thread.run(answer(1))


def test_what_never_waits_runs_in_place() -> None:
    async def thread() -> int:
        return threading.get_ident()

    assert run_in_place(thread()) == threading.get_ident()
    with pytest.raises(InvalidValue) as caught:
        run_in_place(answer(1))
    assert caught.value.field == "connection"


async def test_blocking_code_under_test_uses_the_same_tasks() -> None:
    app = Mainspring(Settings())

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    def view() -> Any:
        return app.sync.submit(add, {"a": 1, "b": 2}, priority=1)

    async with TestApp(app) as t:
        task = await asyncio.to_thread(view)
        await t.run_until_idle()
        state = await asyncio.to_thread(task.wait, 10)
        assert (state.status, state.result) == (TaskStatus.COMPLETED, 3)
        await asyncio.to_thread(app.sync.close)


def test_whoever_waits_when_it_is_stopped_is_told(loop_thread: LoopThread) -> None:
    begun = threading.Event()

    async def never() -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        caller = pool.submit(loop_thread.run, never())
        assert begun.wait(5)
        loop_thread.stop()
        with pytest.raises(MainspringError, match="the app was closed during the call"):
            caller.result(5)


def test_calls_that_meet_a_stop_are_all_answered(loop_thread: LoopThread) -> None:
    def call(number: int) -> int | None:
        try:
            return loop_thread.run(answer(number))
        except MainspringError:
            return None

    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(call, number) for number in range(400)]
        for _ in range(40):
            loop_thread.stop()
        answers = [each.result(5) for each in calls]
    assert all(got in (number, None) for number, got in enumerate(answers))
