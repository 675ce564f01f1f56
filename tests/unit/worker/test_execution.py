"""Everything that a handler can return, raise or do, and the ending that the store is told."""

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import pytest

from mainspring.core.context import TaskContext
from mainspring.core.definitions import define
from mainspring.domain.errors import StaleLease
from mainspring.domain.outcomes import Cancel, Complete, Fail, Outcome, Retry, Snooze
from mainspring.domain.task import (
    Cancelled,
    CommittedElsewhere,
    Completed,
    Failed,
    FailureKind,
    Lease,
    Released,
    Retried,
)
from mainspring.worker.execution import Ended, Execution, Prepared, directly
from mainspring.worker.messages import StopReason
from manual_clock import START, ManualClock
from unit.worker.making import Link, make_lease


def execute(
    handler: Callable[..., Any],
    lease: Lease | None = None,
    *,
    link: Link | None = None,
    stopped_by: StopReason | None = None,
    **defaults: Any,
) -> Ended:
    prepared = Prepared(define("work", handler, **defaults))
    execution = Execution(
        prepared,
        make_lease() if lease is None else lease,
        clock=ManualClock(),
        jitter=0.5,
        link=link or Link(),
        ends_at=30.0,
    )
    execution.stopped_by = stopped_by
    return asyncio.run(execution.run(directly)) if prepared.is_async else execution.call()


def returning(value: Any) -> Callable[[], Any]:
    def handler() -> Any:
        return value

    return handler


def raising(error: BaseException) -> Callable[[], Any]:
    async def handler() -> Any:
        raise error

    return handler


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (None, None),
        (0, "0"),
        ("", '""'),
        ({"a": [1, 2.5, None, True]}, '{"a":[1,2.5,null,true]}'),
        (date(2026, 5, 12), '"2026-05-12"'),
        ((1, 2), "[1,2]"),
        (Complete("done"), '"done"'),
        (Complete(), None),
        (10**40, str(10**40)),
    ],
)
def test_a_value_is_the_result(value: Any, result: str | None) -> None:
    assert execute(returning(value)) == Completed(result)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"a": [1, float("nan")]}, "result.a[1] is nan"),
        ({"name": "x\x00y"}, "result.name is text that contains the NUL"),
        (["\ud800"], "result[0] is text that contains half of a surrogate"),
        ({1: 2}, "result has the key 1"),
        ({"deep": [object()]}, "result.deep[0] has the type object"),
        ("x" * 300_000, "result has 300,002 bytes"),
        (10**80, "result is a whole number of more than 64 digits"),
        (Outcome(), "result has the type Outcome"),
    ],
)
def test_a_result_that_cannot_be_stored_fails_the_task_for_good(value: Any, told: str) -> None:
    ending = execute(returning(value))
    assert isinstance(ending, Failed)
    assert ending.failure.kind is FailureKind.INVALID_RESULT
    assert told in ending.failure.message
    assert ending.failure.traceback == ""


def test_a_cycle_in_a_result_is_survived() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    ending = execute(returning(cycle))
    assert isinstance(ending, Failed)
    assert ending.failure.kind is FailureKind.INVALID_RESULT


@pytest.mark.parametrize("how", [returning, raising])
def test_signals_may_be_returned_or_raised(how: Callable[[Any], Callable[[], Any]]) -> None:
    again = execute(how(Retry("busy", after=5)))
    assert isinstance(again, Retried)
    assert (again.delay_seconds, again.failure.message) == (5.0, "busy")
    plain = execute(how(Retry()))
    assert isinstance(plain, Retried)
    assert plain.delay_seconds == 9.0
    assert execute(how(Snooze(60))) == Released(60.0)
    assert execute(how(Snooze(until=START + timedelta(minutes=2)))) == Released(120.0)
    assert execute(how(Snooze(until=START - timedelta(minutes=2)))) == Released(0.0)
    assert execute(how(Cancel("no need"))) == Cancelled("no need")
    failed = execute(how(Fail("never")))
    assert isinstance(failed, Failed)
    assert (failed.failure.kind, failed.failure.message) == (FailureKind.FINAL, "never")


def test_a_snooze_until_some_time_is_counted_by_the_clock_of_the_store() -> None:
    clock = ManualClock()

    def handler() -> Snooze:
        clock.advance(30)
        return Snooze(until=START + timedelta(minutes=2))

    prepared = Prepared(define("work", handler))
    execution = Execution(
        prepared, make_lease(), clock=clock, jitter=0.5, link=Link(), ends_at=30.0
    )
    clock.set(START + timedelta(hours=1))
    assert execution.call() == Released(90.0)


@pytest.mark.parametrize(
    "signal",
    [
        Retry(after=float("nan")),
        Retry(after=-1),
        Retry(after="soon"),  # type: ignore[arg-type]
        Snooze(),
        Snooze(1e300),
        Snooze(until=datetime(2026, 1, 1)),  # noqa: DTZ001
    ],
)
def test_a_signal_with_a_wrong_value_is_a_failure_that_names_it(signal: Any) -> None:
    ending = execute(returning(signal))
    assert isinstance(ending, Retried)
    assert type(signal).__name__ in ending.failure.message
    assert ending.delay_seconds == 9.0


def test_an_error_is_retried_with_its_text_and_the_frames_of_the_handler() -> None:
    async def handler() -> None:
        raise ValueError("two\nlines")

    ending = execute(handler)
    assert isinstance(ending, Retried)
    assert ending.failure.kind is FailureKind.ERROR
    assert ending.failure.message == "ValueError: two lines"
    assert "in handler" in ending.failure.traceback
    assert "worker/execution.py" not in ending.failure.traceback


def test_the_delay_grows_with_the_attempt_and_has_the_jitter() -> None:
    lease = make_lease(attempt=3, backoff=msgspec.convert({}, type(make_lease().backoff)))
    ending = execute(raising(OSError("down")), lease)
    assert isinstance(ending, Retried)
    assert ending.delay_seconds == 8.0 * (1 + 0.25 * 0.5)


class Http(Exception):
    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"status {status}")
        self.status_code = status
        self.headers = headers or {}


def test_errors_that_will_not_go_away_are_final() -> None:
    for ending in (
        execute(raising(Http(404))),
        execute(raising(KeyError()), final_errors=(LookupError,)),
    ):
        assert isinstance(ending, Failed)
        assert ending.failure.kind is FailureKind.FINAL


def test_the_time_that_a_server_names_is_waited_for() -> None:
    ending = execute(raising(Http(429, {"Retry-After": "120"})))
    assert isinstance(ending, Retried)
    assert ending.delay_seconds == 120.0


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    @property
    def status_code(self) -> int:
        raise RuntimeError("no status")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Unspeakable(), "Unspeakable: (its text cannot be shown)"),
        (ValueError("nul \x00 and \ud800"), "ValueError: nul \\x00 and \\ud800"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
)
def test_strange_errors_are_survived(error: BaseException, message: str) -> None:
    ending = execute(raising(error))
    assert isinstance(ending, Retried)
    assert ending.failure.message == message


def test_passwords_in_errors_are_not_kept() -> None:
    error = ValueError("no route to postgresql://bob:hunter2@db/x, password='hunter2'")
    ending = execute(raising(error))
    assert isinstance(ending, Retried)
    assert ending.failure.message == "ValueError: no route to postgresql://***@db/x, password=***"
    assert "hunter2" not in ending.failure.traceback.splitlines()[-1]


def test_huge_errors_are_cut_to_what_can_be_stored() -> None:
    def handler(depth: int = 0) -> None:
        if depth > 200:
            raise ValueError("x" * 50_000_000)
        handler(depth + 1)

    ending = execute(handler)
    assert isinstance(ending, Retried)
    assert len(ending.failure.message) <= 2000
    assert len(ending.failure.traceback) <= 8 * 1024


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"count": "1"}, "payload.count does not fit task type 'work': Expected `int`, got `str`"),
        ({"count": 1, "more": 2}, "unknown field `more`"),
        ({}, "missing required field `count`"),
        ([1], "Expected `object`, got `array`"),
    ],
)
def test_a_payload_that_does_not_fit_never_reaches_the_handler(payload: Any, told: str) -> None:
    calls: list[int] = []

    def handler(count: int) -> None:
        calls.append(count)

    ending = execute(handler, make_lease(payload))
    assert isinstance(ending, Failed)
    assert ending.failure.kind is FailureKind.INVALID_PAYLOAD
    assert told in ending.failure.message
    assert calls == []


@pytest.mark.parametrize("text", ["{", "", "[" * 100_000, '{"count": 1e999999}', "\ud800"])
def test_a_payload_that_is_no_json_is_survived(text: str) -> None:
    def handler(count: int) -> None:
        raise AssertionError

    ending = execute(handler, msgspec.structs.replace(make_lease(), payload=text))
    assert isinstance(ending, Failed)
    assert ending.failure.kind is FailureKind.INVALID_PAYLOAD


@pytest.mark.parametrize("is_async", [True, False])
def test_an_attempt_that_is_stopped_ends_by_the_reason(is_async: bool) -> None:
    def plain() -> None:
        raise asyncio.CancelledError

    async def coroutine() -> None:
        raise asyncio.CancelledError

    handler = coroutine if is_async else plain
    assert execute(handler, stopped_by=StopReason.CANCEL) == Cancelled()
    assert execute(handler, stopped_by=StopReason.DRAIN) == Released()
    assert execute(handler, stopped_by=StopReason.LOST) == Released()
    late = execute(handler, stopped_by=StopReason.TIMEOUT)
    assert isinstance(late, Retried)
    assert late.failure.kind is FailureKind.TIMEOUT
    assert "timeout of 30 s" in late.failure.message


def test_a_handler_that_is_told_to_stop_may_still_end_as_it_likes() -> None:
    execution = Execution(
        Prepared(define("work", lambda: None)),
        make_lease(),
        clock=ManualClock(),
        jitter=0.0,
        link=Link(),
        ends_at=1.0,
    )
    assert execution.call() == Completed()

    async def snoozes() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            raise Snooze(5) from None

    async def scenario() -> Ended:
        started = Execution(
            Prepared(define("work", snoozes)),
            make_lease(),
            clock=ManualClock(),
            jitter=0.0,
            link=Link(),
            ends_at=1.0,
        )
        attempt = asyncio.ensure_future(started.run(directly))
        await asyncio.sleep(0)
        started.stopped_by = StopReason.TIMEOUT
        attempt.cancel()
        return await attempt

    assert asyncio.run(scenario()) == Released(5.0)


def test_the_context_tells_about_the_attempt() -> None:
    lease = make_lease({"x": 1}, attempt=2, fencing_token=7, queue="mail", priority=3)
    seen: list[TaskContext] = []

    def handler(ctx: TaskContext, x: int) -> None:
        seen.append(ctx)
        ctx.progress(0.5)

    link = Link()
    assert execute(handler, lease, link=link) == Completed()
    (ctx,) = seen
    assert (ctx.task_id, ctx.task_type, ctx.attempt, ctx.max_retries) == (lease.id, "work", 2, 3)
    assert (ctx.fencing_token, ctx.queue, ctx.priority) == (7, "mail", 3)
    assert ctx.scheduled_at == START
    assert ctx.time_left() == 30.0
    assert ctx.deadline == START + timedelta(seconds=30)
    assert ctx.deadline.tzinfo is UTC
    assert link.progress == ["0.5"]
    assert not ctx.is_cancelled
    link.stopping = True
    assert ctx.is_cancelled


def test_completing_in_a_transaction_is_the_ending() -> None:
    async def handler(ctx: TaskContext) -> str:
        await ctx.progress({"step": 1})
        await ctx.heartbeat()
        await ctx.complete_in(None, {"n": 1})
        return "not used"

    link = Link()
    assert execute(handler, link=link) == CommittedElsewhere()
    assert link.completed == ['{"n":1}']


def test_a_lost_lease_is_an_error_in_the_handler() -> None:
    errors: list[StaleLease] = []

    def handler(ctx: TaskContext) -> None:
        try:
            ctx.complete_in_sync(None)
        except StaleLease as error:
            errors.append(error)
            raise

    assert isinstance(execute(handler, link=Link(held=False)), Retried)
    assert "no longer holds its lease" in str(errors[0])
