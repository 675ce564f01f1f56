import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from mainspring import (
    Backoff,
    Cancel,
    Fail,
    InvalidValue,
    KeyConflict,
    Mainspring,
    NotFound,
    Retry,
    Settings,
    Snooze,
    TaskContext,
    TaskStatus,
)
from mainspring.domain.errors import NotADeadLetter, TaskAlreadyFinished, TaskNotWaiting
from mainspring.domain.limits import Limit, QueueLimits
from mainspring.domain.task import CancelState, NewTask
from mainspring.testing import START, TestApp

Calls = list[Any]


@pytest.fixture
def calls() -> Calls:
    return []


@pytest.fixture
def app(calls: Calls) -> Mainspring:
    app = Mainspring(Settings())

    @app.task("mail", priority=3, timeout=30, max_retries=2, backoff="fixed", queue="mail")
    async def mail(ctx: TaskContext, user_id: int, email: str = "nobody") -> dict[str, Any]:
        calls.append((ctx.attempt, user_id, email))
        ctx.progress({"at": ctx.attempt})
        if email == "down":
            raise ConnectionError("no route")
        return {"sent": email}

    @app.task
    def add(a: int, b: int) -> int:
        calls.append((a, b))
        return a + b

    @app.task(final_errors=[ZeroDivisionError])
    def divide(a: int, b: int) -> float:
        return a / b

    return app


class TestRegistering:
    def test_options_become_defaults(self, app: Mainspring) -> None:
        definition = app.registry.get("mail")
        assert (definition.priority, definition.timeout_seconds, definition.max_retries) == (
            3,
            30,
            2,
        )
        assert definition.queue == "mail"
        assert app.registry.names() == ("add", "divide", "mail")

    def test_a_handler_is_still_a_function(self) -> None:
        app = Mainspring(Settings())

        @app.task("sum")
        def add(a: int, b: int) -> int:
            """Add."""
            return a + b

        assert add(1, b=2) == 3
        assert (add.name, add.__name__, add.__doc__) == ("sum", "add", "Add.")

    @pytest.mark.parametrize(
        ("options", "field"),
        [
            ({"priority": 11}, "priority"),
            ({"timeout": 0}, "timeout"),
            ({"backoff": "sometimes"}, "backoff"),
            ({"backoff": Backoff(base_seconds=-1)}, "backoff.base_seconds"),
            ({"final_errors": ["ValueError"]}, "final_errors"),
            ({"retries": 3}, "retries"),
            ({"key": "k"}, "key"),
        ],
    )
    def test_bad_options_are_refused(
        self, app: Mainspring, options: dict[str, Any], field: str
    ) -> None:
        with pytest.raises(InvalidValue) as caught:
            app.task("other", **options)(lambda: None)
        assert caught.value.field == field

    def test_a_name_is_taken_once(self, app: Mainspring) -> None:
        with pytest.raises(InvalidValue, match="registered twice"):
            app.task("mail")(lambda: None)

    def test_nothing_is_read_or_opened_before_the_first_use(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MAINSPRING_PROCESSES", "many")
        Mainspring().task("t")(lambda: None)


class TestSubmitting:
    async def test_by_handler_and_by_name(self, app: Mainspring, calls: Calls) -> None:
        async with TestApp(app) as t:
            first = await app.submit("mail", {"user_id": 1})
            second = await app.submit("unknown_here", {"any": "thing"}, priority=0)
            await t.run_until_idle()
            state = await first.refresh()
            assert (state.queue, state.priority, state.timeout) == ("mail", 3, 30)
            assert (state.status, state.result) == (TaskStatus.COMPLETED, {"sent": "nobody"})
            assert state.progress == {"at": 1}
            assert calls == [(1, 1, "nobody")]
            waiting = await second.refresh()
            assert waiting.status is TaskStatus.PENDING
            assert waiting.ready

    async def test_parameters_are_checked_at_once(self, app: Mainspring) -> None:
        async with TestApp(app) as t:
            for payload, field in (
                ({"user_id": "1"}, "payload.user_id"),
                ({}, "payload"),
                ({"user_id": 1, "colour": 1}, "payload"),
                ({"user_id": 1, "email": "\x00"}, "payload.email"),
                ([1], "payload"),
            ):
                with pytest.raises(InvalidValue) as caught:
                    await app.submit("mail", payload)
                assert caught.value.field == field
            assert await t.tasks() == []

    async def test_a_key_makes_one_task(self, app: Mainspring) -> None:
        async with TestApp(app):
            first = await app.submit("add", {"a": 1, "b": 2}, key="k")
            again = await app.submit("add", {"b": 2, "a": 1}, key="k")
            assert (again.id, first.is_new, again.is_new) == (first.id, True, False)
            with pytest.raises(KeyConflict):
                await app.submit("add", {"a": 9, "b": 2}, key="k")

    async def test_many(self, app: Mainspring, calls: Calls) -> None:
        async with TestApp(app) as t:
            built = [app.new_task("add", {"a": n, "b": 0}) for n in range(2500)]
            handles = await app.submit_many(built)
            assert [handle.id for handle in handles] == [task.id for task in built]
            assert await t.run_until_idle() == 2500
            assert calls == [(n, 0) for n in range(2500)]

    async def test_many_of_one_type(self, app: Mainspring, calls: Calls) -> None:
        async with TestApp(app) as t:
            add = app.task("sum", priority=2)(lambda a, b: calls.append((a, b)))
            handles = await add.submit_many({"a": n, "b": 0} for n in range(2500))
            later = await add.options(delay=60).submit_many([{"a": 0, "b": 1}])
            assert len({handle.id for handle in handles}) == 2500
            assert (await handles[7].refresh()).payload == {"a": 7, "b": 0}
            assert (await later[0].refresh()).priority == 2
            assert await t.run_until_idle() == 2500
            assert sorted(calls) == [(n, 0) for n in range(2500)]

    async def test_many_of_one_type_are_checked(self, app: Mainspring) -> None:
        async with TestApp(app) as t:
            add = app.task("sum")(lambda a: a)
            for wrong, field in (
                ({"b": 1}, "payload"),
                ([1], "payload"),
                ({"a": "\x00"}, "payload.a"),
            ):
                with pytest.raises(InvalidValue) as caught:
                    await add.submit_many([{"a": 1}, wrong])  # type: ignore[list-item]
                assert caught.value.field == field
            with pytest.raises(InvalidValue, match="key belongs to one task"):
                await add.options(key="k").submit_many([{"a": 1}])
            assert await t.tasks() == []

    async def test_parameters_have_the_types_of_the_handler(self) -> None:
        app = Mainspring(Settings())

        @app.task("add", priority=3)
        async def add(ctx: TaskContext, a: int, b: int = 2) -> int:
            return a + b

        @app.task
        def shout(text: str) -> str:
            return text.upper()

        async with TestApp(app) as t:
            # The comments are checked as well: mypy complains about one that is not needed.
            calls: list[Callable[[], NewTask]] = [
                lambda: add.build(b=1),  # type: ignore[call-arg]
                lambda: add.build("one"),  # type: ignore[arg-type]
                lambda: add.build(1, c=3),  # type: ignore[call-arg]
                lambda: add.build(1, a=3),  # type: ignore[misc]
                lambda: add.build(1, 2, 3),  # type: ignore[call-arg]
                lambda: add.options(priority=0).build(a=None),  # type: ignore[arg-type]
                lambda: shout.build(5),  # type: ignore[arg-type]
            ]
            for wrong in calls:
                with pytest.raises(InvalidValue, match="payload"):
                    wrong()
            handles = [await add.submit(1), await add.submit(1, b=3), await shout.submit("x")]
            await t.run_until_idle()
            assert [(await one.refresh()).result for one in handles] == [3, 4, "X"]
            assert shout("y") == "Y"

    @pytest.mark.parametrize("tasks", ["abc", [1], [{"task_type": "mail"}]])
    async def test_many_that_are_no_tasks(self, app: Mainspring, tasks: Any) -> None:
        async with TestApp(app) as t:
            with pytest.raises(InvalidValue, match=r"tasks\[0\] is .*; give tasks made by build"):
                await app.submit_many(tasks)
            assert await t.tasks() == []

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("status", "nope"),
            ("task_type", "two words"),
            ("queue", ""),
            ("since", "yesterday"),
            ("until", datetime(2026, 1, 1)),  # noqa: DTZ001 - what is refused
            ("limit", 0),
        ],
    )
    async def test_a_list_with_a_wrong_bound(self, app: Mainspring, name: str, value: Any) -> None:
        async with TestApp(app):
            with pytest.raises(InvalidValue, match=f"{name} is "):
                _ = [task async for task in app.tasks(**{name: value})]

    async def test_a_built_task_takes_no_more_options(self, app: Mainspring) -> None:
        built = app.new_task("add", {"a": 1, "b": 1})
        with pytest.raises(InvalidValue, match="already built"):
            app.new_task(built, priority=1)


class TestLifeOfATask:
    async def test_retries_come_at_their_time(self, app: Mainspring, calls: Calls) -> None:
        async with TestApp(app) as t:
            task = await app.submit("mail", {"user_id": 1, "email": "down"})
            await t.run_until_idle()
            assert (await task.refresh()).status is TaskStatus.RETRYING
            await t.advance(1.9)
            assert len(calls) == 1
            await t.advance(10)
            state = await task.refresh()
            assert (state.status, state.attempt_count) == (TaskStatus.FAILED, 3)
            assert state.last_error == "ConnectionError: no route"
            assert [one.task_id for one in await t.dead_letters()] == [task.id]

    async def test_a_final_error_is_not_repeated(self, app: Mainspring) -> None:
        async with TestApp(app) as t:
            task = await app.submit("divide", {"a": 1, "b": 0})
            await t.run_until_idle()
            state = await task.refresh()
            assert (state.status, state.attempt_count) == (TaskStatus.FAILED, 1)

    async def test_a_dead_letter_is_replayed_with_another_payload(self, app: Mainspring) -> None:
        async with TestApp(app) as t:
            task = await app.submit("divide", {"a": 1, "b": 0})
            await t.run_until_idle()
            assert await app.replay(task.id, payload={"a": 1, "b": 2}) == [task.id]
            await t.run_until_idle()
            assert (await task.refresh()).result == 0.5
            with pytest.raises(NotADeadLetter, match="completed"):
                await app.replay(task.id)

    async def test_a_dead_letter_is_discarded_with_a_reason(self, app: Mainspring) -> None:
        async with TestApp(app) as t:
            task = await app.submit("divide", {"a": 1, "b": 0})
            await t.run_until_idle()
            with pytest.raises(InvalidValue, match="reason"):
                await app.discard(task.id, reason=" ")
            await app.discard(task_type="divide", reason="known")
            state = await task.refresh()
            assert (state.status, state.reason) == (TaskStatus.DISCARDED, "known")

    async def test_a_task_waits_for_its_time(self, app: Mainspring, calls: Calls) -> None:
        async with TestApp(app) as t:
            task = await app.submit("add", {"a": 1, "b": 2}, delay=60)
            await t.advance(59)
            assert calls == []
            await t.advance(1)
            state = await task.refresh()
            assert state.started_at == state.scheduled_at
            assert (state.started_at - START).total_seconds() == 60

    async def test_cancelling(self, app: Mainspring, calls: Calls) -> None:
        async with TestApp(app) as t:
            task = await app.submit("add", {"a": 1, "b": 2}, delay=60)
            assert await task.cancel("not needed") is CancelState.CANCELLED
            await t.advance(100)
            assert calls == []
            assert (await task.refresh()).reason == "not needed"
            with pytest.raises(TaskAlreadyFinished):
                await task.cancel()
            with pytest.raises(NotFound):
                await app.cancel("00000000-0000-7000-8000-000000000000")
            with pytest.raises(InvalidValue, match="UUID"):
                await app.cancel("first")

    async def test_moving_in_time(self, app: Mainspring, calls: Calls) -> None:
        async with TestApp(app) as t:
            task = await app.submit("add", {"a": 1, "b": 2}, delay=3600)
            await task.reschedule(None)
            await t.run_until_idle()
            assert calls == [(1, 2)]
            with pytest.raises(TaskNotWaiting, match="completed"):
                await task.reschedule(None)

    async def test_waiting(self, app: Mainspring) -> None:
        async with TestApp(app) as t:
            task = await app.submit("add", {"a": 1, "b": 2})
            waiter = asyncio.create_task(task.wait(timeout=30))
            await t.run_until_idle()
            assert (await waiter).result == 3

    async def test_a_paused_queue_waits(self, app: Mainspring, calls: Calls) -> None:
        async with TestApp(app) as t:
            await app.submit("add", {"a": 1, "b": 2}, queue="q")
            await app.pause_queue("q")
            await t.run_until_idle()
            assert calls == []
            await app.resume_queue("q")
            await t.run_until_idle()
            assert calls == [(1, 2)]
            assert [(one.queue, one.paused) for one in await app.queues()] == [("q", False)]
            with pytest.raises(NotFound):
                await app.resume_queue("never")

    async def test_limits(self, app: Mainspring) -> None:
        async with TestApp(app):
            await app.limits.set_queue("q", concurrency=5)
            await app.limits.set_groups("q", rate="30/m")
            await app.limits.set_group("q", "acme", rate=2, burst=9)
            await app.limits.set_group("q", "gone", concurrency=1)
            await app.limits.drop_group("q", "gone")
            assert await app.limits.get("q") == QueueLimits(
                queue=Limit(concurrency=5),
                group=Limit(rate=0.5),
                groups={"acme": Limit(rate=2.0, burst=9)},
            )
            await app.limits.set_queue("q")
            assert (await app.limits.get("q")).queue == Limit()
            with pytest.raises(InvalidValue, match="group_key"):
                await app.limits.set_group("q", "", concurrency=1)


class TestOutcomes:
    @pytest.mark.parametrize(
        ("outcome", "status", "count"),
        [
            (Retry("again", after=5), TaskStatus.RETRYING, 1),
            (Snooze(60), TaskStatus.PENDING, 0),
            (Cancel("no longer needed"), TaskStatus.CANCELLED, 1),
            (Fail("hopeless"), TaskStatus.FAILED, 1),
        ],
    )
    async def test_returned_or_raised(
        self, outcome: Exception, status: TaskStatus, count: int
    ) -> None:
        app = Mainspring(Settings())

        @app.task
        def returns() -> Exception:
            return outcome

        @app.task
        async def raises() -> None:
            raise outcome

        async with TestApp(app) as t:
            tasks = [await returns.submit(), await raises.submit()]
            await t.run_until_idle()
            for task in tasks:
                state = await task.refresh()
                assert (state.status, state.attempt_count) == (status, count)

    async def test_a_result_that_cannot_be_stored_fails_the_task(self) -> None:
        app = Mainspring(Settings())

        @app.task
        def bad() -> Any:
            return {"x": "\x00"}

        async with TestApp(app) as t:
            task = await bad.submit()
            await t.run_until_idle()
            state = await task.refresh()
            assert state.status is TaskStatus.FAILED
            assert "result.x" in (state.last_error or "")


class TestKit:
    async def test_higher_priority_first(self, app: Mainspring, calls: Calls) -> None:
        async with TestApp(app) as t:
            await app.submit("add", {"a": 2, "b": 0}, priority=6)
            await app.submit("add", {"a": 1, "b": 0}, priority=4)
            await t.run_until_idle()
            assert calls == [(1, 0), (2, 0)]

    async def test_tasks_may_submit_tasks(self, app: Mainspring, calls: Calls) -> None:
        @app.task
        async def parent() -> None:
            await app.submit("add", {"a": 1, "b": 1})

        async with TestApp(app) as t:
            await parent.submit()
            assert await t.run_until_idle() == 2
            assert calls == [(1, 1)]

    async def test_what_was_submitted_can_be_seen(self, app: Mainspring) -> None:
        async with TestApp(app) as t:
            await app.submit("add", {"a": 1, "b": 1})
            await app.submit("mail", {"user_id": 7})
            assert [task.payload for task in await t.tasks(task_type="mail")] == [{"user_id": 7}]
            assert len(await t.tasks(status="pending")) == 2
            with pytest.raises(InvalidValue, match="choose from pending"):
                await t.tasks(status="waiting")

    async def test_the_app_is_itself_again_afterwards(self, app: Mainspring) -> None:
        async with TestApp(app):
            pass
        with pytest.raises(Exception, match="no database is configured"):
            await app.submit("add", {"a": 1, "b": 1})
