"""Schedules of an app: declared, made by hand, fired by the test kit's clock."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.app import Mainspring
from mainspring.core.context import TaskContext
from mainspring.core.declarations import deploy
from mainspring.domain.errors import InvalidValue, ScheduleExists, ScheduleNotFound
from mainspring.testing import START, TestApp

MINUTE = timedelta(minutes=1)


def make_app(seen: list[Any] | None = None, **options: Any) -> Mainspring:
    app = Mainspring()
    given = {"timezone": "Europe/Berlin", "payload": {"kind": "daily"}, **options}

    @app.schedule("* * * * *", **given)
    @app.task("report")
    async def report(ctx: TaskContext, kind: str) -> str:
        if seen is not None:
            seen.append((ctx.schedule, ctx.previous_nominal_time, ctx.nominal_time, kind))
        return kind

    return app


async def test_a_declared_schedule_fires_as_the_clock_moves() -> None:
    seen: list[Any] = []
    async with TestApp(make_app(seen)) as t:
        assert await t.advance(150) == 2
        assert seen == [
            ("report", START, START + MINUTE, "daily"),
            ("report", START + MINUTE, START + 2 * MINUTE, "daily"),
        ]
        (first, _) = await t.tasks(task_type="report")
        assert (first.schedule, first.schedule_type) == ("report", "recurring")
        assert (first.nominal_at, first.started_at) == (START + MINUTE, START + MINUTE)
        ticks = await t.app.schedules.history("report")
        assert [tick.task_status for tick in ticks] == ["completed", "completed"]


async def test_a_task_that_was_submitted_has_no_schedule() -> None:
    seen: list[Any] = []
    async with TestApp(make_app(seen)) as t:
        await t.app.submit("report", {"kind": "now"})
        await t.run_until_idle()
    assert seen == [(None, None, None, "now")]


async def test_the_verbs() -> None:
    async with TestApp(make_app()) as t:
        schedules = t.app.schedules
        made = await schedules.create(
            "hourly", "report", {"kind": "hourly"}, every=timedelta(hours=1), priority=2
        )
        assert (made.kind, made.next_at, made.priority) == (
            "interval",
            START + timedelta(hours=1),
            2,
        )
        with pytest.raises(ScheduleExists):
            await schedules.create("hourly", "report", {"kind": "other"}, every=3600)
        edited = await schedules.update("hourly", {"kind": "twice"}, every=1800.0)
        assert (edited.payload, edited.version) == ({"kind": "twice"}, 2)
        assert [one.name for one in await schedules.list()] == ["hourly", "report"]
        assert (await schedules.pause("hourly", "why")).note == "why"
        await schedules.resume("hourly")
        run = await schedules.trigger("hourly")
        await t.run_until_idle()
        assert (await t.get(str(run.task_id))).result == "twice"
        span = (START - timedelta(hours=1), START)
        dry = await schedules.backfill("hourly", *span, dry_run=True)
        assert (len(dry.runs), dry.started) == (0, ())
        await schedules.delete("hourly")
        with pytest.raises(ScheduleNotFound):
            await schedules.get("hourly")


async def test_a_preview_of_what_exists_and_of_what_does_not() -> None:
    async with TestApp(make_app()) as t:
        stored = await t.app.schedules.preview("report", count=2)
        assert [time.utc for time in stored.next] == [START + MINUTE, START + 2 * MINUTE]
        other = await t.app.schedules.preview(
            cron="30 2 * * *",
            timezone="Europe/Berlin",
            after=datetime(2026, 3, 28, 12, tzinfo=UTC),
            count=1,
        )
        assert other.next[0].local.isoformat() == "2026-03-29T03:00:00+02:00"
        assert other.warnings


async def test_a_payload_is_checked_against_the_handler() -> None:
    async with TestApp(make_app()) as t:
        with pytest.raises(InvalidValue, match="does not fit task type 'report'"):
            await t.app.schedules.create("bad", "report", {"sort": 1}, every=60)


def test_the_same_verbs_block() -> None:
    async def within(t: TestApp) -> None:
        made = await asyncio.to_thread(
            t.app.sync.schedules.create, "sync", "report", {"kind": "x"}, every=60
        )
        assert made.kind == "interval"
        listed = await asyncio.to_thread(t.app.sync.schedules.list)
        assert [one.name for one in listed] == ["report", "sync"]
        await asyncio.to_thread(t.app.sync.schedules.delete, "sync")
        preview = await asyncio.to_thread(t.app.sync.schedules.preview, "report", count=1)
        assert preview.next[0].utc == START + MINUTE

    async def whole() -> None:
        async with TestApp(make_app()) as t:
            await within(t)

    asyncio.run(whole())


async def test_a_new_deployment_replaces_and_keeps_the_place() -> None:
    async with TestApp(make_app()) as t:
        await t.advance(60)
        other = make_app(payload={"kind": "weekly"})
        other.sessions.substitute(t._sessions)
        session = await other.sessions.current()
        assert await deploy(session.schedules, other.registry) == ["report"]
        view = await t.app.schedules.get("report")
        assert (view.payload, view.runs, view.next_at) == (
            {"kind": "weekly"},
            1,
            START + 2 * MINUTE,
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timezone": "Mars"}, "time zone"),
        ({"payload": {}}, "kind"),
        ({"overlap": "sometimes"}, "overlap"),
        ({"on_conflict": "ignore"}, "on_conflict"),
        ({"every": 60}, "exactly one"),
        ({"wrong": 1}, "wrong is not an option of a schedule"),
        ({"name": "no spaces!"}, "name"),
    ],
)
def test_what_is_wrong_is_said_where_it_is_written(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        make_app(**options)


def test_two_schedules_of_a_task_need_names() -> None:
    app = make_app()
    report = app.registry.get("report")

    class Task:
        definition = report

    app.schedule("0 * * * *", payload={"kind": "x"}, name="other")(Task())
    with pytest.raises(InvalidValue, match="declared twice"):
        app.schedule("0 * * * *", payload={"kind": "x"})(Task())


def test_the_order_of_the_decorators_is_explained() -> None:
    app = Mainspring()
    with pytest.raises(InvalidValue, match=r"above @app\.task"):
        app.schedule("* * * * *")(lambda: None)  # type: ignore[type-var]


def keyed_app(**options: Any) -> Mainspring:
    app = Mainspring()

    @app.schedule("* * * * *", payload={"customer": 7}, **options)
    @app.task(
        "sync",
        group_key=lambda customer: f"c{customer}",
        unique_key=lambda customer: f"sync:{customer}",
    )
    async def sync(customer: int) -> None:
        """Nothing to do."""

    return app


async def test_runs_have_the_keys_of_their_task_type() -> None:
    async with TestApp(keyed_app()) as t:
        schedules = t.app.schedules
        made = await schedules.get("sync")
        assert (made.group_key, made.unique_key) == ("c7", "sync:7")
        other = await schedules.update("sync", {"customer": 8})
        assert (other.group_key, other.unique_key) == ("c8", "sync:8")
        chosen = await schedules.update("sync", unique_key="mine")
        assert (chosen.group_key, chosen.unique_key) == ("c8", "mine")
        kept = await schedules.update("sync", {"customer": 9})
        assert (kept.group_key, kept.unique_key) == ("c9", "mine")
        cleared = await schedules.update("sync", clear=["unique_key"])
        assert cleared.unique_key == "sync:9"


async def test_what_is_cleared_is_as_if_it_had_never_been_given() -> None:
    async with TestApp(make_app()) as t:
        schedules = t.app.schedules
        hook = "https://example.com/hook"
        await schedules.update("report", priority=1, labels="gpu", webhook=hook, group_key="g")
        cleared = await schedules.update(
            "report", clear=["priority", "labels", "webhook", "group_key"], queue="q"
        )
        assert (cleared.priority, cleared.labels, cleared.webhook) == (5, (), None)
        assert (cleared.group_key, cleared.queue) == (None, "q")
        with pytest.raises(InvalidValue, match="group_key") as refused:
            await schedules.update("report", clear=["colour"])
        assert refused.value.field == "clear"


def test_a_declaration_whose_parts_do_not_fit_is_refused_where_it_is_written() -> None:
    with pytest.raises(InvalidValue, match="buffer_one") as refused:
        keyed_app(overlap="cancel_previous")
    assert refused.value.field == "overlap"
    with pytest.raises(InvalidValue, match="unique_key none beside") as refused:
        keyed_app(key="once")
    assert refused.value.field == "key"
