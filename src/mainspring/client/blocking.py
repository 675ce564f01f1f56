"""The client for code that blocks."""

import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Self, TypeVar
from uuid import UUID

import httpx

from mainspring.adapters.system import SystemClock
from mainspring.client import operator_requests, schedule_requests, task_requests
from mainspring.client.events import Event, Watch
from mainspring.client.exchange import (
    FAILURES,
    TIMEOUT_SECONDS,
    Address,
    Reply,
    Request,
    Trial,
)
from mainspring.client.limits import SyncClientLimits
from mainspring.domain.errors import StoreUnavailable, Unavailable

T = TypeVar("T")

_LAST_GOOD: Final = 299


class SyncCaller:
    """Sends requests until they are answered. May be used from several threads."""

    def __init__(self, address: Address, timeout: float) -> None:
        self.host = address.host
        self.clock = SystemClock()
        self.timeout = timeout
        self.closed = threading.Event()
        # What may not be sent twice gets a connection of its own: a kept one may have ended
        # unseen, and then nobody would know what was received.
        self._kept, self._fresh = (
            httpx.Client(
                base_url=address.url,
                headers=address.headers,
                verify=address.trust,
                limits=httpx.Limits(max_connections=100, max_keepalive_connections=kept),
                trust_env=False,
            )
            for kept in (20, 0)
        )

    def close(self) -> None:
        """Close what is open and end the waits of all threads."""
        self.closed.set()
        self._kept.close()
        self._fresh.close()

    def call(self, request: Request[T], *, patient: bool = False) -> T:
        """Return what a request is answered with; raises the errors of `mainspring.errors`."""
        trial = Trial(request, self.host, self.clock, self.timeout, patient=patient)
        while True:
            self.check_open()
            try:
                return trial.result(self._once(request, trial))
            except (Unavailable, *FAILURES) as failure:
                seconds = trial.pause_after(failure)
            self.closed.wait(seconds)

    def listen(self, watch: Watch) -> Iterator[Event]:
        """Yield the events of one stream, until it ends, however it does."""
        request = watch.request()
        trial = Trial(request, self.host, self.clock, self.timeout)
        silence = watch.silence_seconds()
        limits = httpx.Timeout(min(self.timeout, silence), read=silence)
        with (
            suppress(Unavailable, *FAILURES),
            self._fresh.stream(
                "GET", request.path, headers=dict(request.headers), timeout=limits
            ) as answer,
        ):
            if answer.status_code > _LAST_GOOD:
                trial.result(_reply(answer, answer.read()))
            watch.opened()
            for line in answer.iter_lines():
                event = watch.hear(line)
                if event is not None:
                    yield event
                if watch.is_over() or self.closed.is_set():
                    break
            else:
                watch.is_complete = True
        watch.stream_ended()

    def check_open(self) -> None:
        """Raise when the client was closed."""
        if self.closed.is_set():
            raise StoreUnavailable("the client is closed")

    def _once(self, request: Request[Any], trial: Trial[Any]) -> Reply:
        sender = self._kept if request.is_repeatable else self._fresh
        seconds = trial.seconds_left()
        headers = dict(request.headers)
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        with sender.stream(
            request.method, request.target, content=request.body, headers=headers, timeout=seconds
        ) as answer:
            parts = []
            for part in answer.iter_bytes():
                parts.append(part)
                if trial.is_over():
                    raise httpx.ReadTimeout("the answer did not arrive in time")
            return _reply(answer, b"".join(parts))


def _reply(answer: httpx.Response, body: bytes) -> Reply:
    return Reply(answer.status_code, answer.headers.get("Retry-After"), body)


class SyncClient:
    """The verbs of `Client` for code that blocks. May be used from several threads.

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
        self._caller = SyncCaller(self._address, timeout)
        self.limits = SyncClientLimits(self._caller.call)
        """Limits of queues: `client.limits.set_queue(...)` and so on."""

        self.schedules = SyncClientSchedules(self._caller)
        """Schedules: `client.schedules.create(...)` and so on."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._address.host}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open and end the waits of all threads."""
        self._caller.close()

    def call(self, request: Request[T]) -> T:
        """Send a request of `mainspring.client` and return its answer."""
        return self._caller.call(request)

    def submit(
        self, task_type: str, payload: Mapping[str, Any] | None = None, /, **options: Any
    ) -> dict[str, Any]:
        """See `Client.submit`."""
        return self.call(task_requests.submit(task_type, payload, options))

    def submit_many(self, tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """See `Client.submit_many`."""
        return [
            result
            for batch in task_requests.batches(tasks)
            for result in self.call(batch)["results"]
        ]

    def get(self, task_id: UUID | str, *, max_staleness: float = 0.0) -> dict[str, Any]:
        """See `Client.get`."""
        return self.call(task_requests.look(task_id, max_staleness))

    def tasks(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """See `Client.tasks`."""
        cursor: str | None = None
        while True:
            page = self.call(task_requests.page(filters, cursor))
            yield from page["tasks"]
            cursor = page["cursor"]
            if cursor is None:
                return

    def cancel(self, task_id: UUID | str, reason: str | None = None) -> str:
        """See `Client.cancel`."""
        return str(self.call(task_requests.cancel(task_id, reason))["status"])

    def reschedule(self, task_id: UUID | str, at: datetime | str | None) -> str:
        """See `Client.reschedule`."""
        if at is None:
            return self.run_now(task_id)
        return str(self.call(task_requests.reschedule(task_id, at))["status"])

    def run_now(self, task_id: UUID | str) -> str:
        """See `Client.run_now`."""
        return str(self.call(task_requests.run_now(task_id))["status"])

    def wait(self, task_id: UUID | str, timeout: float | None = None) -> dict[str, Any]:
        """See `Client.wait`."""
        watch = Watch(task_id, self._caller.clock, timeout)
        while True:
            if watch.streams:
                for _ in self._caller.listen(watch):
                    pass
            task = self._caller.call(task_requests.look(task_id), patient=True)
            if watch.check(task):
                return task
            self._caller.closed.wait(watch.pause())

    def events(
        self, task_id: UUID | str, *, after: str = "", timeout: float | None = None
    ) -> Iterator[Event]:
        """See `Client.events`."""
        watch = Watch(task_id, self._caller.clock, timeout, after)
        has_ended = False
        while True:
            for event in self._caller.listen(watch):
                yield event
                if event.is_last:
                    return
            if has_ended and watch.is_complete:
                return
            has_ended = watch.check(self._caller.call(task_requests.look(task_id), patient=True))
            self._caller.closed.wait(watch.pause())

    def dead_letters(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """See `Client.dead_letters`."""
        cursor: str | None = None
        while True:
            page = self.call(operator_requests.dead_letter_page(filters, cursor))
            yield from page["tasks"]
            cursor = page["cursor"]
            if cursor is None:
                return

    def dead_letter(self, task_id: UUID | str) -> dict[str, Any]:
        """See `Client.dead_letter`."""
        return self.call(operator_requests.dead_letter(task_id))

    def replay(
        self,
        *task_ids: UUID | str,
        task_type: str | None = None,
        everything: bool = False,
        payload: Mapping[str, Any] | None = None,
    ) -> list[UUID]:
        """See `Client.replay`."""
        which = operator_requests.selection(task_ids, task_type, everything=everything)
        return _ids(self.call(operator_requests.replay(which, payload)))

    def discard(
        self,
        *task_ids: UUID | str,
        reason: str,
        task_type: str | None = None,
        everything: bool = False,
    ) -> list[UUID]:
        """See `Client.discard`."""
        which = operator_requests.selection(task_ids, task_type, everything=everything)
        return _ids(self.call(operator_requests.discard(which, reason)))

    def queues(self) -> list[dict[str, Any]]:
        """See `Client.queues`."""
        return list(self.call(operator_requests.queues())["queues"])

    def pause_queue(self, queue: str) -> None:
        """See `Client.pause_queue`."""
        self.call(operator_requests.pause_queue(queue))

    def resume_queue(self, queue: str) -> None:
        """See `Client.resume_queue`."""
        self.call(operator_requests.resume_queue(queue))

    def workers(self) -> list[dict[str, Any]]:
        """See `Client.workers`."""
        return list(self.call(operator_requests.workers())["workers"])

    def stats(self) -> dict[str, Any]:
        """See `Client.stats`."""
        return self.call(operator_requests.stats())


class SyncClientSchedules:
    """`SyncClient.schedules`: the verbs of `ClientSchedules`, blocking."""

    def __init__(self, caller: SyncCaller) -> None:
        self._call = caller.call

    def create(
        self,
        name: str,
        task_type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        on_conflict: str = "error",
        **options: Any,
    ) -> dict[str, Any]:
        """See `ClientSchedules.create`."""
        return self._call(schedule_requests.create(name, task_type, payload, on_conflict, options))

    def update(
        self,
        name: str,
        payload: Mapping[str, Any] | None = None,
        *,
        clear: Sequence[str] = (),
        **options: Any,
    ) -> dict[str, Any]:
        """See `ClientSchedules.update`."""
        return self._call(schedule_requests.update(name, payload, clear, options))

    def get(self, name: str) -> dict[str, Any]:
        """See `ClientSchedules.get`."""
        return self._call(schedule_requests.look(name))

    def list(self) -> Sequence[dict[str, Any]]:
        """See `ClientSchedules.list`."""
        return tuple(self._call(schedule_requests.all_of_them())["schedules"])

    def pause(self, name: str, note: str = "") -> dict[str, Any]:
        """See `ClientSchedules.pause`."""
        return self._call(schedule_requests.pause(name, note))

    def resume(self, name: str, note: str = "", *, catch_up: bool = False) -> dict[str, Any]:
        """See `ClientSchedules.resume`."""
        return self._call(schedule_requests.resume(name, note, catch_up=catch_up))

    def trigger(self, name: str, overlap: str | None = None) -> dict[str, Any]:
        """See `ClientSchedules.trigger`."""
        return self._call(schedule_requests.trigger(name, overlap))

    def backfill(
        self,
        name: str,
        start: datetime | str,
        end: datetime | str,
        *,
        limit: int = 1000,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """See `ClientSchedules.backfill`."""
        return self._call(
            schedule_requests.backfill(name, start, end, limit=limit, dry_run=dry_run)
        )

    def delete(self, name: str) -> None:
        """See `ClientSchedules.delete`."""
        self._call(schedule_requests.delete(name))

    def history(
        self, name: str, limit: int = 50, before: datetime | str | None = None
    ) -> Sequence[dict[str, Any]]:
        """See `ClientSchedules.history`."""
        return tuple(self._call(schedule_requests.history(name, limit, before))["ticks"])

    def preview(self, **options: Any) -> dict[str, Any]:
        """See `ClientSchedules.preview`."""
        return self._call(schedule_requests.preview(options))


def _ids(answer: Mapping[str, Any]) -> list[UUID]:
    return [UUID(one) for one in answer["task_ids"]]
