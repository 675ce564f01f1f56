"""Every command for people works the same on the task store and through the API."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from api.conftest import Api
from mainspring.cli.root import run
from mainspring.domain.task import (
    Completed,
    Failed,
    Failure,
    FailureKind,
    LeaseRef,
    Settlement,
)
from mainspring.ports.access import Scope
from mainspring.ports.store import ClaimRequest
from mainspring.ports.workers import WorkerState

APP = """
from mainspring import Mainspring

app = Mainspring()

@app.task("t", priority=2, timeout=9, queue="own", max_retries=0)
def t(a: int = 1) -> None: ...
"""


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def value(self) -> Any:
        (value,) = self.lines
        return value


Run = Callable[..., Any]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """A command line, run here in a thread with its own event loop."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "command_app.py").write_text(APP)
    for name in ("MAINSPRING_API_URL", "MAINSPRING_API_KEY", "MAINSPRING_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)

    async def call(*arguments: object) -> Answer:
        out, err = io.StringIO(), io.StringIO()

        def work() -> int:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                return run([str(one) for one in arguments])

        status = await asyncio.to_thread(work)
        return Answer(status, out.getvalue(), err.getvalue())

    return call


@pytest.fixture(params=["store", "api"])
async def there(
    request: pytest.FixtureRequest,
    api: Api,
    database: str,
    command: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Commands on the installation, on one of the two ways."""
    if request.param == "api":
        monkeypatch.setenv("MAINSPRING_API_URL", api.url)
        monkeypatch.setenv("MAINSPRING_API_KEY", await api.key())
    else:
        monkeypatch.setenv("MAINSPRING_DATABASE_URL", database)
    return command


async def test_a_task_with_a_result_and_one_with_progress(api: Api, there: Run) -> None:
    ids = [(await there("tasks", "submit", "t", "--json")).value["task_id"] for _ in range(2)]
    claim = ClaimRequest(worker_id="w", limit=2, lease_seconds=60, task_types=("t",))
    done, under_way = sorted((await api.store.claim(claim)).leases, key=lambda one: str(one.id))
    ended = Settlement(done.id, done.fencing_token, Completed('{"said":  "hello"}'))
    assert await api.store.settle([ended]) == [True]
    assert await api.store.progress(LeaseRef(under_way.id, under_way.fencing_token), "0.50")
    found = {one["task_id"]: one for one in (await there("tasks", "list", "--json")).lines}
    assert set(found) == set(ids)
    assert found[str(done.id)]["result"] == {"said": "hello"}
    assert found[str(done.id)]["progress"] is None
    assert found[str(under_way.id)]["progress"] == 0.5
    # As the handler wrote it, to the last space.
    assert '{"said":  "hello"}' in (await there("tasks", "get", str(done.id), "--json")).out


@pytest.fixture
async def worker(api: Api) -> AsyncIterator[Callable[[], Any]]:
    """A worker that fails whatever there is."""
    state = WorkerState(
        worker_id="w", hostname="h", pid=1, task_types=("t",), queues=None, lanes=None, slots=1
    )
    await api.store.beat(state)

    async def fail() -> None:
        claim = ClaimRequest(worker_id="w", limit=10, lease_seconds=60, task_types=("t",))
        failed = Failed(Failure(kind=FailureKind.ERROR, message="no"))
        for lease in (await api.store.claim(claim)).leases:
            await api.store.settle([Settlement(lease.id, lease.fencing_token, failed)])

    yield fail
    await api.store.leave("w")


async def test_tasks(there: Run, worker: Callable[[], Any]) -> None:
    made = await there("tasks", "submit", "t", "--payload", '{"a": 1}', "--in", "1h", "--json")
    assert (made.status, made.err) == (0, "")
    task = made.value
    assert set(task) >= {"task_id", "status", "payload", "attempts", "scheduled_at", "level"}
    assert (task["payload"], task["status"], task["attempt_count"]) == ({"a": 1}, "pending", 0)
    task_id = task["task_id"]
    assert (await there("tasks", "get", task_id, "--json")).value == task
    assert [one["task_id"] for one in (await there("tasks", "list", "--json")).lines] == [task_id]
    assert (await there("tasks", "list", "--status", "ready", "--json")).lines == []
    assert (await there("tasks", "list", "--since", "1h", "--limit", 1)).out.count(task_id) == 1
    moved = await there("tasks", "reschedule", task_id, "--at", "2100-01-01T02:00+02:00", "--json")
    assert moved.value["scheduled_at"] == "2100-01-01T00:00:00Z"
    assert (await there("tasks", "run-now", task_id, "--json")).value["ready"] is True
    cancelled = await there("tasks", "cancel", task_id, "--reason", "old", "--json")
    assert cancelled.value == {"task_id": task_id, "status": "cancelled"}
    again = await there("tasks", "cancel", task_id)
    assert (again.status, again.out) == (4, f"{task_id} finished\n")
    late = await there("tasks", "run-now", task_id)
    assert late.status == 4
    assert "only a task that waits can be moved" in late.err
    assert "pending" not in (await there("tasks", "watch", task_id)).out


async def test_errors_have_the_same_statuses(there: Run) -> None:
    nobody = "01900000-0000-7000-8000-000000000000"
    missing = await there("tasks", "get", nobody)
    assert (missing.status, missing.err) == (4, f"error: there is no task {nobody}\n")
    assert (await there("tasks", "submit", "t", "--priority", 11)).status == 2
    assert (await there("queues", "resume", "nothing")).status == 4
    assert (await there("schedules", "get", "nothing")).status == 4
    first = await there("tasks", "submit", "t", "--key", "k")
    again = await there("tasks", "submit", "t", "--key", "k")
    assert again.out == first.out
    assert "this is the task of that time" in again.err
    conflict = await there("tasks", "submit", "t", "--key", "k", "--payload", '{"a": 2}')
    assert conflict.status == 4
    assert "used before for a different task" in conflict.err


async def test_group_and_unique_keys(there: Run, tmp_path: Path) -> None:
    keys = ("--group-key", "7", "--unique-key", "u", "--in", "1h")
    made = (await there("tasks", "submit", "t", *keys, "--json")).value
    assert (made["group_key"], made["unique_key"], made["held"]) == ("7", "u", False)
    again = await there("tasks", "submit", "t", *keys)
    assert again.out == made["task_id"] + "\n"
    assert "a task with the unique key 'u' is live; this is that one" in again.err
    both = await there("tasks", "submit", "t", "--key", "k", "--unique-key", "u")
    assert both.status == 2
    assert "unique_key and key are both given" in both.err
    lines = [{"task_type": "t", "unique_key": "u", "group_key": str(n)} for n in (7, 8, 8)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = await there("tasks", "import", "tasks.jsonl", "--json")
    assert done.value == {"stored": 1, "repeated": 2, "refused": 0}
    found = (await there("tasks", "list", "--group-key", "7", "--json")).lines
    assert [task["task_id"] for task in found] == [made["task_id"]]
    assert "unique_key         u\n" in (await there("tasks", "get", made["task_id"])).out


async def test_waiting(there: Run, worker: Callable[[], Any]) -> None:
    late = await there("tasks", "submit", "t", "--wait", "--wait-timeout", "0.2s", "--json")
    assert late.status == 1
    assert late.value["status"] == "pending"
    waiting = asyncio.create_task(
        there("tasks", "submit", "t", "--max-retries", 0, "--app", "command_app:app", "--wait")
    )
    while not waiting.done():
        await worker()
        await asyncio.wait([waiting], timeout=0.05)
    failed = await waiting
    assert failed.status == 1
    assert "is failed: no" in failed.err


async def test_an_import_resumes_and_never_doubles(there: Run, tmp_path: Path) -> None:
    lines = [{"task_type": "t", "payload": {"a": n}} for n in range(1200)]
    text = "\n".join(map(json.dumps, [*lines, {"task_type": "t", "priority": 99}]))
    (tmp_path / "tasks.jsonl").write_text(text)
    first = await there("tasks", "import", "tasks.jsonl", "--json")
    assert first.status == 1
    assert first.lines[-1] == {"stored": 1200, "repeated": 0, "refused": 1}
    again = await there("tasks", "import", "tasks.jsonl", "--json")
    assert again.lines[-1] == {"stored": 0, "repeated": 1200, "refused": 1}


async def test_an_app_gives_its_defaults(there: Run, tmp_path: Path) -> None:
    bad = {"task_type": "t", "payload": {"a": "x"}}
    lines = [{"task_type": "t"}, bad, {"task_type": "other"}]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = await there("tasks", "import", "tasks.jsonl", "--app", "command_app:app", "--json")
    assert [one.get("field") for one in done.lines[:2]] == ["payload.a", "task_type"]
    (task,) = (await there("tasks", "list", "--json")).lines
    assert (task["priority"], task["timeout"], task["queue"]) == (2, 9, "own")
    named = ("schedules", "create", "s", "--type", "t", "--every", "1h", "--app", "command_app:app")
    schedule = (await there(*named, "--timeout", "8s", "--json")).value
    assert (schedule["priority"], schedule["timeout"], schedule["queue"]) == (2, 8, "own")
    assert (await there(*named, "--payload", '{"a": "x"}')).status == 2


async def test_dead_letters(there: Run, worker: Callable[[], Any]) -> None:
    submitted = [await there("tasks", "submit", "t", "--max-retries", 0) for _ in range(3)]
    ids = [one.out.strip() for one in submitted]
    await worker()
    found = (await there("dead-letters", "list", "--type", "t", "--json")).lines
    assert [one["task_id"] for one in found] == ids[::-1]
    assert (await there("dead-letters", "get", ids[0], "--json")).value["last_error"] == "no"
    checked = ("--app", "command_app:app", "--payload")
    refused = await there("dead-letters", "replay", ids[0], *checked, '{"a": "x"}')
    assert refused.status == 2
    assert "payload.a does not fit" in refused.err
    done = await there("dead-letters", "replay", ids[0], *checked, '{"a": 5}', "--json")
    assert done.value == {"task_id": ids[0], "status": "pending"}
    assert (await there("tasks", "get", ids[0], "--json")).value["payload"] == {"a": 5}
    assert (await there("dead-letters", "replay", ids[0])).status == 4
    closed = await there("dead-letters", "discard", ids[1], "--reason", "old")
    assert (closed.out, closed.err) == (f"{ids[1]}\n", "1 discarded\n")
    assert (await there("dead-letters", "replay", "--all")).out == f"{ids[2]}\n"


async def test_schedules(there: Run) -> None:
    create = ("schedules", "create", "s", "--type", "t", "--every", "1h")
    made = await there(*create, "--start-at", "2026-01-01T00:00Z", "--overlap", "allow", "--json")
    assert made.status == 0, made.err
    schedule = made.value
    assert (schedule["name"], schedule["kind"], schedule["status"]) == ("s", "interval", "active")
    assert (await there("schedules", "get", "s", "--json")).value == schedule
    assert (await there("schedules", "list", "--json")).lines == [schedule]
    assert (await there("schedules", "create", "s", "--type", "t", "--every", "2h")).status == 4
    bad = await there("schedules", "create", "b", "--type", "t", "--cron", "99 * * * *")
    assert bad.status == 2
    changed = await there("schedules", "update", "s", "--type", "u", "--priority", 1, "--json")
    assert (changed.value["task_type"], changed.value["priority"]) == ("u", 1)
    paused = await there("schedules", "pause", "s", "--note", "why", "--json")
    assert (paused.value["status"], paused.value["note"]) == ("paused", "why")
    assert (await there("schedules", "resume", "s", "--json")).value["status"] == "active"
    tick = (await there("schedules", "trigger", "s", "--json")).value
    assert set(tick) >= {"task_id", "nominal_at", "outcome", "kind", "decided_at"}
    assert (await there("tasks", "get", tick["task_id"])).status == 0
    span = ("--start", "2026-01-01T00:00Z", "--end", "2026-01-01T03:00Z")
    listed = await there("schedules", "backfill", "s", *span, "--dry-run", "--json")
    assert len(listed.value["runs"]) == 3
    assert set(listed.value) == {"runs", "started", "truncated", "dry_run"}
    assert "submitted" in (await there("schedules", "backfill", "s", *span)).out
    kinds = [one["kind"] for one in (await there("schedules", "history", "s", "--json")).lines]
    assert sorted(kinds) == ["backfill"] * 3 + ["manual"]
    assert (await there("schedules", "delete", "s")).out == "s is deleted\n"


async def test_queues_and_workers(there: Run, worker: Callable[[], Any]) -> None:
    assert (await there("queues", "pause", "early")).out == "early is paused\n"
    await there("tasks", "submit", "t")
    found = {one["queue"]: one for one in (await there("queues", "list", "--json")).lines}
    assert found["default"]["ready"] == 1
    await there("queues", "pause", "default")
    assert "paused" in (await there("queues", "list")).out
    assert (await there("queues", "resume", "default")).out == "default is active\n"
    assert [one["worker_id"] for one in (await there("workers", "list", "--json")).lines] == ["w"]


async def test_limits_of_queues(there: Run) -> None:
    nothing = {"concurrency": None, "rate": None, "burst": None}
    none = {"queue": nothing, "group": nothing, "groups": []}
    assert (await there("queues", "limit", "mail", "--json")).value == none
    await there("queues", "limit", "mail", "--concurrency", 50, "--rate", "100/s")
    await there("queues", "limit", "mail", "--each-group", "--rate", "30/m", "--burst", 5)
    told = await there("queues", "limit", "mail", "--group", "acme/eu", "--concurrency", 9)
    assert told.out.splitlines() == [
        "LIMIT OF       CONCURRENCY  RATE   BURST",
        "queue mail     50           100/s  100",
        "each group     -            30/m   5",
        "group acme/eu  9            -      -",
    ]
    assert (await there("queues", "limit", "mail", "--json")).value == {
        "queue": {"concurrency": 50, "rate": 100.0, "burst": None},
        "group": {"concurrency": None, "rate": 0.5, "burst": 5},
        "groups": [{"group_key": "acme/eu", "limit": {**nothing, "concurrency": 9}}],
    }
    listed = (await there("queues", "list")).out.splitlines()
    assert listed[0].endswith("HELD  LIMIT")
    assert listed[1].endswith("0     50 at once, 100/s; each group 30/m (burst 5)")
    await there("queues", "limit", "mail", "--each-group", "--none")
    await there("queues", "limit", "mail", "--group", "acme/eu", "--none")
    assert (await there("queues", "limit", "mail", "--none", "--json")).value == none


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--concurrency", 0), "concurrency"),
        (("--rate", "fast"), "rate"),
        (("--rate", "100"), "rate"),
        (("--burst", 5), "burst"),
        (("--none", "--rate", "1/s"), "--none"),
        (("--group", "a", "--each-group", "--none"), "--each-group"),
        (("--group", "a"), "--concurrency"),
        (("--group", "a\nb", "--none"), "group"),
        (("--group", "", "--none"), "group"),
    ],
)
async def test_what_is_no_limit(there: Run, options: tuple[object, ...], word: str) -> None:
    told = await there("queues", "limit", "mail", *options)
    assert told.status == 2
    assert word in told.err
    assert told.out == ""


class TestWhichOne:
    """The API is used where it is configured, unless the command line names a database."""

    @pytest.fixture
    def nobody(self, command: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
        monkeypatch.setenv("MAINSPRING_API_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("MAINSPRING_SUBMIT_TIMEOUT_SECONDS", "0.2")
        return command

    async def test_a_named_database_comes_first(self, nobody: Run, database: str) -> None:
        assert (await nobody("tasks", "list")).status == 3
        assert (await nobody("tasks", "list", "--database-url", database)).status == 0

    @pytest.mark.parametrize("words", [("keys", "list"), ("migrate", "--check"), ("bench",)])
    async def test_what_needs_the_database_says_so(self, nobody: Run, words: Any) -> None:
        answer = await nobody(*words)
        assert answer.status == 2
        assert "needs the database itself" in answer.err

    async def test_the_doctor_cannot_reach_it(self, nobody: Run) -> None:
        answer = await nobody("doctor", "--json")
        assert answer.status == 3
        assert [one["check"] for one in answer.lines] == ["settings", "api"]


async def test_the_doctor_looks_at_the_api(
    api: Api, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSPRING_API_URL", api.url)
    checks = ["settings", "api", "api parts", "api key", "api version"]
    for key, good in ((await api.key(), [True] * 5), ("ms_wrong", [True] * 3 + [False])):
        monkeypatch.setenv("MAINSPRING_API_KEY", key)
        answer = await command("doctor", "--json")
        assert [one["check"] for one in answer.lines] == checks[: len(good)]
        assert [one["ok"] for one in answer.lines] == good
    monkeypatch.setenv("MAINSPRING_API_KEY", await api.key(Scope.SUBMIT))
    assert "without the scope read" in (await command("doctor")).out
    assert (await command("tasks", "submit", "t")).status == 0
    blind = await command("tasks", "submit", "t", "--json")
    assert (blind.status, blind.out) == (1, "")
    assert blind.err.startswith("the task is stored as ")
