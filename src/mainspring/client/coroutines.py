"""The client for coroutines."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Any, Final, Self, TypeVar
from uuid import UUID

import httpx

from mainspring.adapters.system import SystemClock
from mainspring.client import operator_requests, schedule_requests, task_requests
from mainspring.client.blocking import SyncClient
from mainspring.client.events import Event, Watch
from mainspring.client.exchange import (
    FAILURES,
    TIMEOUT_SECONDS,
    Address,
    Reply,
    Request,
    Trial,
)
from mainspring.client.limits import ClientLimits
from mainspring.domain.errors import StoreUnavailable, Unavailable

T = TypeVar("T")

_LAST_GOOD: Final = 299


class Caller:
    """Sends requests until they are answered, on the event loop that it is first used in."""

    def __init__(self, address: Address, timeout: float) -> None:
        self.host = address.host
        self.clock = SystemClock()
        self.timeout = timeout
        self._is_closed = False
        # What may not be sent twice gets a connection of its own: a kept one may have ended
        # unseen, and then nobody would know what was received.
        self._kept, self._fresh = (
            httpx.AsyncClient(
                base_url=address.url,
                headers=address.headers,
                verify=address.trust,
                limits=httpx.Limits(max_connections=100, max_keepalive_connections=kept),
                trust_env=False,
            )
            for kept in (20, 0)
        )

    async def close(self) -> None:
        """Close what is open."""
        self._is_closed = True
        await self._kept.aclose()
        await self._fresh.aclose()

    async def call(self, request: Request[T], *, patient: bool = False) -> T:
        """Return what a request is answered with; raises the errors of `mainspring.errors`."""
        trial = Trial(request, self.host, self.clock, self.timeout, patient=patient)
        while True:
            if self._is_closed:
                raise StoreUnavailable("the client is closed")
            try:
                async with asyncio.timeout(trial.seconds_left()):
                    reply = await self._once(request, trial.seconds_left())
                return trial.result(reply)
            except (Unavailable, *FAILURES) as failure:
                seconds = trial.pause_after(failure)
            await self.clock.sleep(seconds)

    async def listen(self, watch: Watch) -> AsyncGenerator[Event, None]:
        """Yield the events of one stream, until it ends, however it does."""
        request = watch.request()
        trial = Trial(request, self.host, self.clock, self.timeout)
        silence = watch.silence_seconds()
        limits = httpx.Timeout(min(self.timeout, silence), read=silence)
        with suppress(Unavailable, *FAILURES):
            async with self._fresh.stream(
                "GET", request.path, headers=dict(request.headers), timeout=limits
            ) as answer:
                if answer.status_code > _LAST_GOOD:
                    trial.result(_reply(answer, await answer.aread()))
                watch.opened()
                async for line in answer.aiter_lines():
                    event = watch.hear(line)
                    if event is not None:
                        yield event
                    if watch.is_over() or self._is_closed:
                        break
                else:
                    watch.is_complete = True
        watch.stream_ended()

    async def _once(self, request: Request[Any], seconds: float) -> Reply:
        sender = self._kept if request.is_repeatable else self._fresh
        headers = dict(request.headers)
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        answer = await sender.request(
            request.method, request.target, content=request.body, headers=headers, timeout=seconds
        )
        return _reply(answer, answer.content)


def _reply(answer: httpx.Response, body: bytes) -> Reply:
    return Reply(answer.status_code, answer.headers.get("Retry-After"), body)


class Client:
    """The verbs of an app over the API, for coroutines of one event loop.

    `api_url` such as `http://host:8400`; `timeout` is the longest that a verb may take, further
    attempts included, in seconds; `tls` what an `https` server is checked by, and a certificate
    of the client's own. Raises the errors of `mainspring.errors` that an app raises;
    `StoreUnavailable` when the API cannot be reached, `OutcomeUnknown` when the answer to
    something that may not be done twice was lost.
    """

    def __init__(
        self,
        api_url: str,
        api_key: str = "",
        timeout: float = TIMEOUT_SECONDS,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address = Address(api_url, api_key, tls)
        self._caller = Caller(self._address, timeout)
        self.limits = ClientLimits(self._caller.call)
        """Limits of queues: `await client.limits.set_queue(...)` and so on."""

        self.schedules = ClientSchedules(self._caller)
        """Schedules: `await client.schedules.create(...)` and so on."""

        self.sync = SyncClient(api_url, api_key, timeout, tls=self._address.tls)
        """The same verbs for code that blocks."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._address.host}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *about: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what is open, that of `sync` included."""
        self.sync.close()
        await self._caller.close()

    async def call(self, request: Request[T]) -> T:
        """Send a request of `mainspring.client` and return its answer."""
        return await self._caller.call(request)

    async def submit(
        self, task_type: str, payload: Mapping[str, Any] | None = None, /, **options: Any
    ) -> dict[str, Any]:
        """Submit a task and return it, in short; it is on disk when this returns.

        Options: `queue`, `priority`, `at` (`scheduled_at`) or `delay`, `timeout`, `max_retries`,
        `backoff` (`retry_backoff`), `labels`, `webhook`, `group_key` and `key` or `unique_key`,
        with the bounds that they have for an app; durations in seconds or as a timedelta. Without a
        `key` it gets one made here, so that it can be sent again when its answer is lost. One with
        a `unique_key` is sent again as it is: if it has run meanwhile, it runs twice.
        """
        return await self.call(task_requests.submit(task_type, payload, options))

    async def submit_many(self, tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Submit up to 10,000 tasks, each an object with a `task_type` and what `submit` takes,
        and return what became of each, in order: its `status` as if it were alone, and its
        `task_id`, or a `code` and a `detail`.
        """
        return [
            result
            for batch in task_requests.batches(tasks)
            for result in (await self.call(batch))["results"]
        ]

    async def get(self, task_id: UUID | str, *, max_staleness: float = 0.0) -> dict[str, Any]:
        """Return a task with its attempts as it is now, or as it was up to `max_staleness` seconds
        ago (0 to 86,400), which lets a read replica answer; raises `TaskNotFound`.
        """
        return await self.call(task_requests.look(task_id, max_staleness))

    async def tasks(self, **filters: Any) -> AsyncIterator[dict[str, Any]]:
        """Yield tasks, newest first, page by page: `status`, `ready`, `task_type`, `queue`,
        `schedule`, `group_key`, `since`, `until`.
        """
        cursor: str | None = None
        while True:
            page = await self.call(task_requests.page(filters, cursor))
            for task in page["tasks"]:
                yield task
            cursor = page["cursor"]
            if cursor is None:
                return

    async def cancel(self, task_id: UUID | str, reason: str | None = None) -> str:
        """Cancel a task: `cancelled` if it will never start, `cancelling` if it runs and is being
        told. Raises `TaskAlreadyFinished`.
        """
        return str((await self.call(task_requests.cancel(task_id, reason)))["status"])

    async def reschedule(self, task_id: UUID | str, at: datetime | str | None) -> str:
        """Move a waiting task to another time, or to now (None); raises `TaskNotWaiting`."""
        if at is None:
            return await self.run_now(task_id)
        return str((await self.call(task_requests.reschedule(task_id, at)))["status"])

    async def run_now(self, task_id: UUID | str) -> str:
        """Let a waiting task run now; raises `TaskNotWaiting`."""
        return str((await self.call(task_requests.run_now(task_id)))["status"])

    async def wait(self, task_id: UUID | str, timeout: float | None = None) -> dict[str, Any]:
        """Return a task once it has ended, however it did; raises `WaitTimedOut` after `timeout`
        seconds (None: never).

        It listens to the events of the task and goes on where it was when the connection breaks;
        an outage of up to the time-out of the client is waited out.
        """
        watch = Watch(task_id, self._caller.clock, timeout)
        while True:
            if watch.streams:
                async for _ in self._caller.listen(watch):
                    pass
            task = await self._caller.call(task_requests.look(task_id), patient=True)
            if watch.check(task):
                return task
            await self._caller.clock.sleep(watch.pause())

    async def events(
        self, task_id: UUID | str, *, after: str = "", timeout: float | None = None
    ) -> AsyncIterator[Event]:
        """Yield what happens to a task, from its submission or from the event `after` on, until
        it has ended; each event once, also across broken connections.
        """
        watch = Watch(task_id, self._caller.clock, timeout, after)
        has_ended = False
        while True:
            async with aclosing(self._caller.listen(watch)) as stream:
                async for event in stream:
                    yield event
                    if event.is_last:
                        return
            if has_ended and watch.is_complete:
                return
            has_ended = watch.check(
                await self._caller.call(task_requests.look(task_id), patient=True)
            )
            await self._caller.clock.sleep(watch.pause())

    async def dead_letters(self, **filters: Any) -> AsyncIterator[dict[str, Any]]:
        """Yield the tasks that failed for good, newest first: `task_type`, `queue`."""
        cursor: str | None = None
        while True:
            page = await self.call(operator_requests.dead_letter_page(filters, cursor))
            for task in page["tasks"]:
                yield task
            cursor = page["cursor"]
            if cursor is None:
                return

    async def dead_letter(self, task_id: UUID | str) -> dict[str, Any]:
        """Return a dead letter with its attempts."""
        return await self.call(operator_requests.dead_letter(task_id))

    async def replay(
        self,
        *task_ids: UUID | str,
        task_type: str | None = None,
        everything: bool = False,
        payload: Mapping[str, Any] | None = None,
    ) -> list[UUID]:
        """Run dead letters again, with a corrected payload if one is given: the named ones, all of
        a type, or everything. Returns their ids; raises `NotADeadLetter`.
        """
        which = operator_requests.selection(task_ids, task_type, everything=everything)
        return _ids(await self.call(operator_requests.replay(which, payload)))

    async def discard(
        self,
        *task_ids: UUID | str,
        reason: str,
        task_type: str | None = None,
        everything: bool = False,
    ) -> list[UUID]:
        """End dead letters for good, with a reason; returns their ids."""
        which = operator_requests.selection(task_ids, task_type, everything=everything)
        return _ids(await self.call(operator_requests.discard(which, reason)))

    async def queues(self) -> list[dict[str, Any]]:
        """Return every queue with its counts."""
        return list((await self.call(operator_requests.queues()))["queues"])

    async def pause_queue(self, queue: str) -> None:
        """Let no task of a queue start until it is resumed."""
        await self.call(operator_requests.pause_queue(queue))

    async def resume_queue(self, queue: str) -> None:
        """Let the tasks of a queue start again; raises `QueueNotFound`."""
        await self.call(operator_requests.resume_queue(queue))

    async def workers(self) -> list[dict[str, Any]]:
        """Return the workers that are alive."""
        return list((await self.call(operator_requests.workers()))["workers"])

    async def stats(self) -> dict[str, Any]:
        """Return the figures of the installation by level, and whether tasks are turned away."""
        return await self.call(operator_requests.stats())


class ClientSchedules:
    """`Client.schedules`: what can be done with schedules. Times have an offset from UTC; durations
    are seconds or a timedelta.
    """

    def __init__(self, caller: Caller) -> None:
        self._call = caller.call

    async def create(
        self,
        name: str,
        task_type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        on_conflict: str = "error",
        **options: Any,
    ) -> dict[str, Any]:
        """Make a schedule: one of `cron`, `every` and `at` says when, `timezone` where; the other
        options are those of an app. A schedule of the same name is, by `on_conflict`, an `error`
        (`ScheduleExists`, unless it is the same already), or `replace`d, or `keep`t.
        """
        return await self._call(
            schedule_requests.create(name, task_type, payload, on_conflict, options)
        )

    async def update(
        self,
        name: str,
        payload: Mapping[str, Any] | None = None,
        *,
        clear: Sequence[str] = (),
        **options: Any,
    ) -> dict[str, Any]:
        """Change what is given; `clear` names options that get their default again."""
        return await self._call(schedule_requests.update(name, payload, clear, options))

    async def get(self, name: str) -> dict[str, Any]:
        """Return a schedule; raises `ScheduleNotFound`."""
        return await self._call(schedule_requests.look(name))

    async def list(self) -> Sequence[dict[str, Any]]:
        """Return all schedules in the order of their names."""
        return tuple((await self._call(schedule_requests.all_of_them()))["schedules"])

    async def pause(self, name: str, note: str = "") -> dict[str, Any]:
        """Let it make no more runs until it is resumed; runs that exist go on."""
        return await self._call(schedule_requests.pause(name, note))

    async def resume(self, name: str, note: str = "", *, catch_up: bool = False) -> dict[str, Any]:
        """Let it go on. The times of the pause are forgotten, unless `catch_up` hands them to its
        misfire policy.
        """
        return await self._call(schedule_requests.resume(name, note, catch_up=catch_up))

    async def trigger(self, name: str, overlap: str | None = None) -> dict[str, Any]:
        """Run it now, beside its timetable; `task_id` of the answer is the run. Raises `RunSkipped`
        when an unfinished run does not allow it.
        """
        return await self._call(schedule_requests.trigger(name, overlap))

    async def backfill(
        self,
        name: str,
        start: datetime | str,
        end: datetime | str,
        *,
        limit: int = 1000,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Run its times from `start` (included) to `end` (not included) now, except those that ran
        before. With `dry_run` they are only listed.
        """
        return await self._call(
            schedule_requests.backfill(name, start, end, limit=limit, dry_run=dry_run)
        )

    async def delete(self, name: str) -> None:
        """Forget it and its history; runs that exist go on."""
        await self._call(schedule_requests.delete(name))

    async def history(
        self, name: str, limit: int = 50, before: datetime | str | None = None
    ) -> Sequence[dict[str, Any]]:
        """Return what became of its times, newest first, up to 1,000 before a time."""
        return tuple((await self._call(schedule_requests.history(name, limit, before)))["ticks"])

    async def preview(self, **options: Any) -> dict[str, Any]:
        """Return the next times of a timetable (`cron`, `timezone`, ...), with warnings."""
        return await self._call(schedule_requests.preview(options))


def _ids(answer: Mapping[str, Any]) -> list[UUID]:
    return [UUID(one) for one in answer["task_ids"]]
