"""The verbs of an app over the API: `Client` for coroutines, `Client.sync` for code that blocks.

A submission always carries an idempotency key, its caller's or one made here, so it can be sent
again when its answer was lost and still makes one task. What changes something without a key is
not sent again then: `OutcomeUnknown` says to look.
"""

import asyncio
import http.client
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit
from uuid import UUID

import msgspec

from mainspring.domain.errors import (
    InvalidValue,
    MainspringError,
    OutcomeUnknown,
    QuotaExceeded,
    Refused,
    StoreUnavailable,
    Unavailable,
    WaitTimedOut,
)
from mainspring.domain.values import BATCH_MAX

T = TypeVar("T")

TRIES: Final = 5
TIMEOUT_SECONDS: Final = 30.0
RETRY_SECONDS_MAX: Final = 10.0
_PAUSE_SECONDS: Final = 0.2
_TERMINAL: Final = frozenset({"completed", "failed", "cancelled", "discarded"})
_LAST_GOOD: Final = 299
_KEYED: Final = frozenset({"/v1/tasks", "/v1/tasks/batch"})
_BROKEN: Final = (OSError, http.client.HTTPException)


class SyncClient:
    """The verbs for code that blocks. May be used from several threads.

    Tasks are the objects of the API, as dictionaries. Raises the errors of `mainspring.errors`
    that an app raises; `StoreUnavailable` when the API cannot be reached.
    """

    def __init__(self, api_url: str, api_key: str = "", timeout: float = TIMEOUT_SECONDS) -> None:
        parts = urlsplit(api_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            message = "api_url is no address of an API; write http://host:8400"
            raise InvalidValue(message, field="api_url")
        self._https = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port
        self._prefix = parts.path.rstrip("/")
        self._timeout = timeout
        self._headers = {"Accept": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._host}:{self._port}>"

    def close(self) -> None:
        """Close what is open and end the waits of all threads."""
        self._closed.set()
        self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    def submit(
        self, task_type: str, payload: Mapping[str, Any] | None = None, /, **options: Any
    ) -> dict[str, Any]:
        """Submit a task and return it; stored when this returns.

        The options are the fields of the API: `queue`, `priority`, `scheduled_at`, `delay`,
        `timeout`, `max_retries`, `retry_backoff`, `key`.
        """
        task = _task(task_type, payload, options)
        return self.request("POST", "/v1/tasks", task)

    def submit_many(self, tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Submit up to 10,000 tasks, objects of the API, and return what became of each."""
        if len(tasks) > BATCH_MAX:
            raise InvalidValue(f"tasks has {len(tasks):,} entries; send at most {BATCH_MAX:,}")
        keyed = [{"key": secrets.token_hex(16), **task} for task in tasks]
        results: list[dict[str, Any]] = self.request("POST", "/v1/tasks/batch", {"tasks": keyed})[
            "results"
        ]
        return results

    def get(self, task_id: UUID | str) -> dict[str, Any]:
        """Return a task; raises `TaskNotFound`."""
        return self.request("GET", f"/v1/tasks/{task_id}")

    def tasks(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield tasks, newest first; the filters are those of the API."""
        cursor: str | None = None
        while True:
            page = self.request("GET", "/v1/tasks", query={**filters, "cursor": cursor})
            yield from page["tasks"]
            cursor = page["cursor"]
            if cursor is None:
                return

    def cancel(self, task_id: UUID | str, reason: str | None = None) -> str:
        """Cancel a task: `cancelled`, or `cancelling` if it runs and is being told."""
        body = {} if reason is None else {"reason": reason}
        status: str = self.request("POST", f"/v1/tasks/{task_id}/cancel", body)["status"]
        return status

    def reschedule(self, task_id: UUID | str, at: str | None) -> None:
        """Move a waiting task to another time (ISO 8601), or to now (None)."""
        if at is None:
            self.request("POST", f"/v1/tasks/{task_id}/run-now", {})
        else:
            self.request("POST", f"/v1/tasks/{task_id}/reschedule", {"scheduled_at": at})

    def replay(self, **selection: Any) -> list[str]:
        """Run dead letters again: `ids`, `task_type` or `all`, and perhaps a `payload`."""
        ids: list[str] = self.request("POST", "/v1/dead-letters/replay", selection)["task_ids"]
        return ids

    def wait(self, task_id: UUID | str, timeout: float | None = None) -> dict[str, Any]:
        """Return a task once it has ended, however it did; raises `WaitTimedOut`.

        Listens to the task's events, and goes on where it was when the connection breaks.
        """
        deadline = _Deadline(timeout)
        last = ""
        while True:
            task = self.get(task_id)
            if task["status"] in _TERMINAL:
                return task
            with suppress(*_BROKEN):
                last = self._listen(task_id, last, deadline)
            if deadline.is_over():
                raise WaitTimedOut(f"task {task_id} did not end within {timeout:g} s; wait longer")
            if self._closed.wait(_PAUSE_SECONDS):
                raise StoreUnavailable("the client was closed during the wait")

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Send a request to the API, again if it is of use, and return what it answers."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = self._prefix + path + (f"?{urlencode(given)}" if given else "")
        data = None if body is None else msgspec.json.encode(body)
        is_repeatable = method == "GET" or path in _KEYED
        error: MainspringError = StoreUnavailable("the API was not asked")
        for attempt in range(TRIES):
            if not is_repeatable:
                # A kept connection may have ended unseen; then nobody knows what was received.
                self._drop()
            try:
                return self._once(method, target, data)
            except OutcomeUnknown as problem:
                if not is_repeatable:
                    raise
                error = problem
            except Unavailable as problem:
                error = problem
            except _BROKEN as problem:
                self._drop()
                message = f"the API at {self._host} cannot be reached ({problem})"
                if not is_repeatable and not isinstance(problem, ConnectionRefusedError):
                    raise OutcomeUnknown(f"{message}; look before you repeat it") from problem
                error = StoreUnavailable(message)
            if attempt + 1 < TRIES and self._closed.wait(_pause(error, attempt)):
                break
        raise error

    def _once(self, method: str, target: str, data: bytes | None) -> dict[str, Any]:
        connection = self._borrow()
        headers = dict(self._headers)
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, target, data, headers)
            answer = connection.getresponse()
            text = answer.read()
        except BaseException:
            connection.close()
            raise
        self._return(connection)
        if answer.status > _LAST_GOOD:
            raise _error_of(text, answer.status, answer.getheader("Retry-After"))
        value: dict[str, Any] = msgspec.json.decode(text)
        return value

    def _listen(self, task_id: UUID | str, last: str, deadline: "_Deadline") -> str:
        """Read events until the task ends, the time is over or the stream breaks."""
        most = deadline.seconds
        seconds = self._timeout if most is None else max(0.01, min(self._timeout, most))
        with closing(self._open(seconds)) as connection:
            headers = dict(self._headers)
            if last:
                headers["Last-Event-ID"] = last
            path = f"{self._prefix}/v1/tasks/{quote(str(task_id))}/events"
            connection.request("GET", path, None, headers)
            answer = connection.getresponse()
            for line in answer:
                if line.startswith(b"id: "):
                    last = line[4:].strip().decode()
                if deadline.is_over():
                    break
        return last

    def _borrow(self) -> http.client.HTTPConnection:
        with self._lock:
            return self._idle.pop() if self._idle else self._open(self._timeout)

    def _return(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if connection.sock is not None and not self._closed.is_set():
                self._idle.append(connection)
                return
        connection.close()

    def _open(self, seconds: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=seconds)

    def _drop(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class Client:
    """The verbs for coroutines. `sync` has the same for code that blocks.

    `api_url` such as `http://host:8400`; `timeout` is the longest that one answer may take.
    """

    def __init__(self, api_url: str, api_key: str = "", timeout: float = TIMEOUT_SECONDS) -> None:
        self.sync = SyncClient(api_url, api_key, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *about: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Release connections and end waits."""
        self.sync.close()

    async def submit(
        self, task_type: str, payload: Mapping[str, Any] | None = None, /, **options: Any
    ) -> dict[str, Any]:
        """Submit a task; see `SyncClient.submit`."""
        return await asyncio.to_thread(self.sync.submit, task_type, payload, **options)

    async def submit_many(self, tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Submit many tasks and return what became of each."""
        return await asyncio.to_thread(self.sync.submit_many, tasks)

    async def get(self, task_id: UUID | str) -> dict[str, Any]:
        """Return a task; raises `TaskNotFound`."""
        return await asyncio.to_thread(self.sync.get, task_id)

    async def wait(self, task_id: UUID | str, timeout: float | None = None) -> dict[str, Any]:
        """Return a task once it has ended; raises `WaitTimedOut`."""
        return await asyncio.to_thread(self.sync.wait, task_id, timeout)

    async def cancel(self, task_id: UUID | str, reason: str | None = None) -> str:
        """Cancel a task; see `SyncClient.cancel`."""
        return await asyncio.to_thread(self.sync.cancel, task_id, reason)

    async def reschedule(self, task_id: UUID | str, at: str | None) -> None:
        """Move a waiting task to another time, or to now."""
        await asyncio.to_thread(self.sync.reschedule, task_id, at)

    async def tasks(self, **filters: Any) -> list[dict[str, Any]]:
        """Return tasks, newest first; the filters are those of the API."""
        return await asyncio.to_thread(_listed, self.sync.tasks, filters)

    async def replay(self, **selection: Any) -> list[str]:
        """Run dead letters again; see `SyncClient.replay`."""
        return await asyncio.to_thread(self.sync.replay, **selection)


class _Deadline:
    """When a wait is over."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._over = threading.Event()
        if seconds is not None:
            timer = threading.Timer(seconds, self._over.set)
            timer.daemon = True
            timer.start()

    def is_over(self) -> bool:
        return self._over.is_set()


def _listed(
    tasks: Callable[..., Iterator[dict[str, Any]]], filters: Mapping[str, Any]
) -> list[dict[str, Any]]:
    return list(tasks(**filters))


def _task(
    task_type: str, payload: Mapping[str, Any] | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    task = {"task_type": task_type, "payload": payload or {}, **options}
    if task.get("key") is None:
        task["key"] = secrets.token_hex(16)
    return task


def _pause(error: MainspringError, attempt: int) -> float:
    asked = error.retry_after if isinstance(error, QuotaExceeded) else 0.0
    return min(max(asked, _PAUSE_SECONDS * 2.0**attempt), RETRY_SECONDS_MAX)


def _error_of(text: bytes, status: int, wait: str | None) -> MainspringError:
    """Return the error that a problem stands for."""
    try:
        problem = msgspec.json.decode(text)
        code, message = str(problem["code"]), str(problem["detail"])
        field = problem.get("field")
    except (msgspec.MsgspecError, KeyError, TypeError):
        return Refused(f"the API answered {status} without a reason")
    kind = _BY_CODE.get(code, Refused)
    if issubclass(kind, QuotaExceeded):
        seconds = float(wait) if wait and wait.isdecimal() else 1.0
        return kind(message, field=field, retry_after=seconds)
    return kind(message, field=field)


def _kinds(kind: type[MainspringError]) -> Iterator[type[MainspringError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


_BY_CODE: Final = {kind.code: kind for kind in _kinds(MainspringError)}
