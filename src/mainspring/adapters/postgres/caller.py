"""Our writes on a connection that the caller holds, in the caller's transaction.

No driver is imported: a connection is recognised by the package that its class comes from, and
whoever holds one has imported it. All use the same two SQL functions with plain text arguments,
because drivers differ in how they send everything else.

On a connection that blocks, the coroutines here end without ever waiting for the event loop, so
code without one may drive them by a single ``send(None)`` in the thread that owns the connection.
"""

import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from inspect import isawaitable
from typing import Any, Final
from uuid import UUID
from weakref import WeakKeyDictionary

import msgspec

from mainspring.adapters.postgres.failures import MOVING, sqlstates
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.rows import backoff_columns
from mainspring.adapters.postgres.submit import check_values, distinct, submissions
from mainspring.adapters.postgres.webhooks import webhook_document
from mainspring.domain.errors import InvalidValue, MigrationNeeded
from mainspring.domain.ids import moved_into, partition_of
from mainspring.domain.namespaces import plain_key
from mainspring.domain.task import LeaseRef, NewTask, Submission
from mainspring.domain.values import shown

Rows = Sequence[Sequence[Any]]
Run = Callable[[Any, str, tuple[Any, ...]], Awaitable[Rows]]

_SUBMIT: Final = QUERIES["submit_within"].sql
_COMPLETE: Final = QUERIES["complete_within"].sql
_KEEP_WEBHOOKS: Final = QUERIES["keep_webhooks_within"].sql
_OWN_PARTITIONS: Final = QUERIES["own_partitions"].sql
_PLACE: Final = re.compile(r"\$(\d)")
_DECIDING: Final = ("group_key", "unique_key", "key")
"""What decides the partition of a task, the first that it has (`domain.ids.deciding_key`)."""

_NO_SCHEMA_CODES: Final = frozenset({"3F000", "42883", "42P01"})


class PostgresCallerTransactions:
    """`ports.transactions.CallerTransactions`.

    With ``is_sharded`` the database of a connection may be one of several, which then keeps some of
    the partitions: what is written through it has to be in those.
    """

    def __init__(self, is_sharded: Callable[[], bool] = lambda: False) -> None:
        self._is_sharded = is_sharded
        self._known: WeakKeyDictionary[Any, tuple[int, ...]] = WeakKeyDictionary()

    async def submit(self, connection: Any, tasks: Sequence[NewTask]) -> list[Submission]:
        """Submit tasks that exist once the caller commits. Where the database is a shard, tasks
        without any key get ids that it keeps; a key that belongs to another is refused.
        """
        run = runner_for(connection)
        if not tasks:
            return []
        if self._is_sharded():
            own = await self._own_partitions(run, connection)
            tasks = [_moved(task, own) for task in tasks]
        check_values(tasks)
        batch = msgspec.json.encode([_document(task) for task in distinct(tasks)]).decode()
        with self._doubting(connection):
            rows = await _explained(run, connection, _SUBMIT, (batch,))
        exceptions = [(row[0], UUID(row[1]), row[2]) for row in rows]
        stored = {place for place, _, _ in exceptions}
        webhooks = webhook_document(distinct(tasks), stored)
        if webhooks is not None:
            await _explained(run, connection, _KEEP_WEBHOOKS, (webhooks,))
        return submissions(tasks, exceptions)

    async def complete(self, connection: Any, lease: LeaseRef, result: str | None) -> bool:
        """Complete a running task once the caller commits."""
        run = runner_for(connection)
        if self._is_sharded():
            _check_own(lease.id, await self._own_partitions(run, connection))
        arguments = (str(lease.id), lease.fencing_token, result)
        with self._doubting(connection):
            rows = await _explained(run, connection, _COMPLETE, arguments)
        return bool(rows[0][0])

    @contextmanager
    def _doubting(self, connection: Any) -> Iterator[None]:
        """Ask again what the database of a connection keeps once it refuses what has moved."""
        try:
            yield
        except Exception as error:
            if MOVING in sqlstates(error):
                with suppress(TypeError, KeyError):
                    del self._known[connection]
            raise

    async def _own_partitions(self, run: Run, connection: Any) -> tuple[int, ...]:
        """Return what the database of a connection keeps, which a connection is asked once."""
        with suppress(TypeError, KeyError):
            return self._known[connection]
        own = tuple(row[0] for row in await _explained(run, connection, _OWN_PARTITIONS, ()))
        if not own:
            raise InvalidValue(
                "connection leads to a database that is none of the shards in database_url; give "
                "one to a shard",
                field="connection",
            )
        # Some kinds of connections cannot be remembered.
        with suppress(TypeError):
            self._known[connection] = own
        return own


def runner_for(connection: Any) -> Run:
    """Return what runs a statement on this kind of connection, or raise `InvalidValue`."""
    packages = {kind.__module__.partition(".")[0] for kind in type(connection).__mro__}
    for package, run in _RUNNERS.items():
        if package in packages and hasattr(connection, _MARKS[package]):
            return run
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise InvalidValue(
        f"connection is a {kind}; give a connection of asyncpg, psycopg 3, SQLAlchemy (or one of "
        "its sessions) or Django",
        field="connection",
    )


def _moved(task: NewTask, own: Sequence[int]) -> NewTask:
    if partition_of(task.id) in own:
        return task
    name = next((one for one in _DECIDING if getattr(task, one) is not None), None)
    if name is None:
        return msgspec.structs.replace(task, id=moved_into(task.id, own))
    key = shown(plain_key(getattr(task, name)))
    raise InvalidValue(
        f"{name} {key} belongs to partition {partition_of(task.id)}, which is not in the shard of "
        "this connection; submit without `connection`, on a connection to the shard that has it "
        f"(`mainspring shards list`), or without a {name}",
        field="connection",
    )


def _check_own(task_id: UUID, own: Sequence[int]) -> None:
    if partition_of(task_id) not in own:
        raise InvalidValue(
            f"task {task_id} is in partition {partition_of(task_id)}, which is not in the shard "
            "of this connection; give a connection to the shard that has it "
            "(`mainspring shards list`)",
            field="connection",
        )


async def _explained(run: Run, connection: Any, statement: str, arguments: tuple[Any, ...]) -> Rows:
    """Run a statement. Errors stay those of the driver, for the caller's own handling, but one."""
    try:
        return await run(connection, statement, arguments)
    except Exception as error:
        if _NO_SCHEMA_CODES.isdisjoint(sqlstates(error)):
            raise
        raise MigrationNeeded(
            "the database of this connection has no Mainspring schema of this version; run "
            "`mainspring migrate` on it, or use a connection to the task store's database"
        ) from error


async def _asyncpg(connection: Any, statement: str, arguments: tuple[Any, ...]) -> Rows:
    # asyncpg sends each argument as the type that the server expects in its place.
    converted = (UUID(arguments[0]), *arguments[1:]) if len(arguments) > 1 else arguments
    rows: Rows = await connection.fetch(statement, *converted)
    return rows


async def _psycopg(connection: Any, statement: str, arguments: tuple[Any, ...]) -> Rows:
    # The caller may have chosen to get rows as dictionaries; ours are read by place.
    tuple_row = sys.modules["psycopg"].rows.tuple_row
    cursor = connection.cursor(row_factory=tuple_row)
    await _value(cursor.execute(_PLACE.sub("%s", statement), arguments))
    rows: Rows = await _value(cursor.fetchall())
    await _value(cursor.close())
    return rows


async def _sqlalchemy(connection: Any, statement: str, arguments: tuple[Any, ...]) -> Rows:
    text = sys.modules["sqlalchemy"].text
    # Text in every place: the statement casts, whatever the driver below makes of types.
    sql = text(_PLACE.sub(r"CAST(:a\1 AS text)", statement))
    values = {
        f"a{number}": argument if argument is None else str(argument)
        for number, argument in enumerate(arguments, start=1)
    }
    result = await _value(connection.execute(sql, values))
    rows: Rows = result.fetchall()
    return rows


async def _django(connection: Any, statement: str, arguments: tuple[Any, ...]) -> Rows:
    with connection.cursor() as cursor:
        cursor.execute(_PLACE.sub("%s", statement), arguments)
        rows: Rows = cursor.fetchall()
    return rows


async def _value(result: Any) -> Any:
    """Return what a call of a driver gives, which may be now or later."""
    return await result if isawaitable(result) else result


_RUNNERS: Final[dict[str, Run]] = {
    "asyncpg": _asyncpg,
    "psycopg": _psycopg,
    "sqlalchemy": _sqlalchemy,
    "django": _django,
}

_MARKS: Final = {
    "asyncpg": "is_in_transaction",
    "psycopg": "cursor",
    "sqlalchemy": "execute",
    "django": "cursor",
}
"""What a connection of the package has, and its other classes (engines, pools) do not."""


def _document(task: NewTask) -> dict[str, Any]:
    backoff = backoff_columns(task.backoff) or (None, None, None, None)
    return {
        "id": task.id,
        "task_type": task.task_type,
        "payload": task.payload,
        "queue": task.queue,
        "priority": task.priority,
        "scheduled_at": task.scheduled_at,
        "delay_seconds": task.delay_seconds,
        "timeout_seconds": task.timeout_seconds,
        "max_retries": task.max_retries,
        "backoff_kind": backoff[0],
        "backoff_base": backoff[1],
        "backoff_multiplier": backoff[2],
        "backoff_maximum": backoff[3],
        "key": task.key,
        "fingerprint": task.fingerprint,
        "group_key": task.group_key,
        "unique_key": task.unique_key,
    }
