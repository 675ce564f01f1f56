"""A fixed piece of work, to measure other rates against.

The speed of a machine changes from minute to minute and from one machine to the next. What this
does never changes, so the ratio of a rate of ours to its rate tells whether *we* became slower. It
does by the plainest means what a task costs: rows go in with a document, are changed, read and
deleted, in batches, each of them committed.
"""

import json
import time
from typing import Any, Final
from uuid import UUID

import asyncpg

from mainspring.adapters.postgres.failures import translated
from mainspring.adapters.postgres.pool import connect
from mainspring.adapters.postgres.queries import QUERIES

BATCHES: Final = 60
BATCH_ROWS: Final = 250
_DOCUMENT: Final = {"user": 123456, "mail": "someone@example.com", "action": "send", "part": 0}


async def rows_per_second(dsn: str) -> float:
    """Do the work once and return the rows that went through it in a second.

    Raises the errors of `domain.errors`, when the table for it cannot be made for instance.
    """
    connection = await connect(dsn)
    try:
        for name in ("yardstick_make", "yardstick_index"):
            await connection.execute(QUERIES[name].sql)
        try:
            await _batch(connection, 0)
            started = time.perf_counter()
            for number in range(1, BATCHES + 1):
                await _batch(connection, number)
            return BATCHES * BATCH_ROWS / (time.perf_counter() - started)
        finally:
            await connection.execute(QUERIES["yardstick_drop"].sql)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise translated(error, wrote=False) from error
    finally:
        await connection.close()


async def _batch(connection: Any, number: int) -> None:
    first = number * BATCH_ROWS
    ids = [UUID(int=first + place) for place in range(BATCH_ROWS)]
    documents = [json.dumps({**_DOCUMENT, "part": place}) for place in range(BATCH_ROWS)]
    await connection.execute(QUERIES["yardstick_insert"].sql, ids, documents)
    rows = await connection.fetch(QUERIES["yardstick_update"].sql, ids)
    assert sum(json.loads(row["document"])["part"] for row in rows) == sum(range(BATCH_ROWS))
    await connection.execute(QUERIES["yardstick_delete"].sql, ids)
