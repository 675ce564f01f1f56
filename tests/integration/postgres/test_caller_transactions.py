"""Tasks and completions that commit or vanish with the caller's own writes."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest

from integration.postgres.callers import KINDS, RollbackError, Transaction, with_asyncpg
from integration.postgres.steps import claim, new_task, submit
from mainspring.adapters.postgres.caller import PostgresCallerTransactions
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.domain.errors import InvalidValue, MigrationNeeded
from mainspring.domain.retry import Backoff, BackoffKind
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import LeaseRef, NewTask, Submission
from mainspring.domain.webhooks import DELIVERY_TYPE, Webhook
from mainspring.ports.store import TaskFilter

pytestmark = pytest.mark.postgres


@pytest.fixture(params=[*KINDS])
def kind(request: pytest.FixtureRequest) -> Transaction:
    return KINDS[request.param]


@pytest.fixture
def tcp_database(database: str, postgres_server: Any) -> str:
    """The same database over TCP, which every driver's URL can say."""
    tcp: str = postgres_server.tcp_dsn(database.split("@/")[1].split("?", maxsplit=1)[0])
    return tcp


@pytest.fixture
def within(kind: Transaction, tcp_database: str) -> Callable[..., Awaitable[Any]]:
    caller = PostgresCallerTransactions()

    async def run(what: str, *arguments: Any, commit: bool = True) -> Any:
        method = getattr(caller, what)
        return await kind(
            tcp_database, lambda connection: method(connection, *arguments), commit=commit
        )

    return run


async def test_tasks_exist_once_the_caller_commits(
    within: Callable[..., Awaitable[list[Submission]]], store: PostgresStore
) -> None:
    at = datetime(2199, 1, 1, tzinfo=UTC)
    task = new_task(
        payload='{"text": "ü \\" % : $1 \\u20ac", "n": 1.0}',
        queue="letters",
        priority=7,
        scheduled_at=at,
        timeout_seconds=2.5,
        max_retries=9,
        backoff=Backoff(BackoffKind.LINEAR, 1.5, 3.0, 60.0),
        key="käse",
        fingerprint="f",
    )
    plain = new_task()
    assert await within("submit", [task, plain]) == [Submission(task.id), Submission(plain.id)]
    stored = await store.get(task.id)
    assert stored is not None
    assert (bytes(stored.payload).decode(), stored.queue) == (task.payload, "letters")
    assert (stored.priority, stored.scheduled_at, stored.timeout) == (7, at, 2.5)
    assert (stored.max_retries, stored.retry_backoff, stored.key) == (9, "linear", "käse")
    assert [lease.id for lease in await claim(store, 5)] == [plain.id]


async def test_nothing_is_left_when_the_caller_rolls_back(
    within: Callable[..., Awaitable[Any]], store: PostgresStore
) -> None:
    task = new_task(key="k", fingerprint="f")
    with pytest.raises(RollbackError):
        await within("submit", [task], commit=False)
    assert await store.get(task.id) is None
    # The key is free again as well.
    other = new_task(key="k", fingerprint="g")
    assert await store.submit([other]) == [Submission(other.id)]


async def test_keys_answer_as_the_store_does(
    within: Callable[..., Awaitable[list[Submission]]], store: PostgresStore
) -> None:
    first = new_task(key="k", fingerprint="f")
    await store.submit([first])
    same, other = new_task(key="k", fingerprint="f"), new_task(key="k", fingerprint="g")
    assert await within("submit", [same, other]) == [
        Submission(first.id, is_new=False),
        Submission(first.id, is_new=False, conflict=True),
    ]


async def test_a_completion_commits_with_the_callers_writes(
    within: Callable[..., Awaitable[bool]], store: PostgresStore
) -> None:
    await submit(store)
    (lease,) = await claim(store)
    ref = LeaseRef(lease.id, lease.fencing_token)
    with pytest.raises(RollbackError):
        await within("complete", ref, '{"n": 1}', commit=False)
    assert (await store.statuses([lease.id]))[lease.id] is TaskStatus.RUNNING
    assert await within("complete", LeaseRef(lease.id, lease.fencing_token - 1), None) is False
    assert await within("complete", ref, '{"n": 1}') is True
    done = await store.get(lease.id)
    assert done is not None
    assert done.status is TaskStatus.COMPLETED
    assert done.result is not None
    assert bytes(done.result) == b'{"n": 1}'
    assert await within("complete", ref, None) is False


async def test_no_tasks_are_no_statement(within: Callable[..., Awaitable[Any]]) -> None:
    assert await within("submit", []) == []


@pytest.mark.parametrize("connection", [None, "postgresql://", object(), 7])
async def test_something_else_is_refused_by_name(connection: object) -> None:
    caller = PostgresCallerTransactions()
    with pytest.raises(InvalidValue, match=r"connection is a .*; give a connection") as caught:
        await caller.submit(connection, [new_task()])
    assert caught.value.field == "connection"


async def test_a_pool_is_no_connection(database: str) -> None:
    async with asyncpg.create_pool(database, min_size=0, max_size=1) as pool:
        with pytest.raises(InvalidValue, match="connection"):
            await PostgresCallerTransactions().submit(pool, [new_task()])


async def test_a_database_without_our_schema_is_explained(
    kind: Transaction, empty_database: str, postgres_server: Any
) -> None:
    dsn = postgres_server.tcp_dsn(empty_database.split("@/")[1].split("?", maxsplit=1)[0])
    caller = PostgresCallerTransactions()
    with pytest.raises(MigrationNeeded, match="mainspring migrate"):
        await kind(dsn, lambda connection: caller.submit(connection, [new_task()]), commit=True)


async def test_a_batch_of_many(database: str, store: PostgresStore) -> None:
    tasks: list[NewTask] = [new_task(priority=n % 11) for n in range(10_000)]
    caller = PostgresCallerTransactions()
    answers = await with_asyncpg(
        database, lambda connection: caller.submit(connection, tasks), commit=True
    )
    assert answers == [Submission(task.id) for task in tasks]
    ids: list[UUID] = [task.id for task in tasks]
    assert set((await store.statuses(ids)).values()) == {TaskStatus.PENDING}


async def test_webhooks_of_the_caller(
    within: Callable[..., Awaitable[Any]], store: PostgresStore
) -> None:
    """Stored with the task, and told with its completion: both in the caller's transactions."""
    hooks = [Webhook(url="https://example.com/h", sign="s"), None]
    task, plain = (new_task(webhook=hook) for hook in hooks)
    await within("submit", [task, plain])
    leases = {lease.id: LeaseRef(lease.id, lease.fencing_token) for lease in await claim(store, 5)}
    with pytest.raises(RollbackError):
        await within("complete", leases[task.id], '"done"', commit=False)
    deliveries = TaskFilter(task_type=DELIVERY_TYPE)
    assert (await store.page(deliveries, 10)).tasks == []
    assert await within("complete", leases[task.id], '"done"')
    assert await within("complete", leases[plain.id], None)
    (delivery,) = (await store.page(deliveries, 10)).tasks
    payload = msgspec.json.decode(delivery.payload)
    assert (payload["url"], payload["sign"]) == ("https://example.com/h", "s")
    assert (payload["body"]["event"], payload["body"]["task_id"]) == ("completed", str(task.id))
