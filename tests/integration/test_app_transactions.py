"""The app on a real database, inside transactions of the drivers that users have."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session as OrmSession

from mainspring import InvalidValue, KeyConflict, Mainspring, NotFound, Settings, TaskStatus

pytestmark = pytest.mark.postgres


@pytest.fixture
async def app(database: str) -> AsyncIterator[Mainspring]:
    app = Mainspring(Settings(database_url=database))

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    async with app:
        yield app


@pytest.fixture
def blocking(database: str) -> Iterator[Mainspring]:
    app = Mainspring(Settings(database_url=database))
    yield app
    app.sync.close()


async def is_stored(app: Mainspring, task: Any) -> bool:
    try:
        await app.get(task.id)
    except NotFound:
        return False
    return True


async def test_a_life_on_a_real_database(app: Mainspring) -> None:
    handles = await app.submit_many([app.new_task("add", {"a": n, "b": 0}) for n in range(10_000)])
    assert len({handle.id for handle in handles}) == 10_000
    state = await handles[4321].refresh()
    assert (state.status, state.payload) == (TaskStatus.PENDING, {"a": 4321, "b": 0})


async def test_many_of_one_type_on_a_real_database(app: Mainspring, database: str) -> None:
    double = app.task("double", queue="doubles", labels=["gpu"])(lambda number: 2 * number)
    made = await double.submit_many({"number": n} for n in range(2500))
    made += await double.options(delay=60, priority=1).submit_many([{"number": 2500}])
    states = [await made[place].refresh() for place in (0, 1234, 2500)]
    assert [state.payload["number"] for state in states] == [0, 1234, 2500]
    assert [state.priority for state in states] == [5, 5, 1]
    assert {(state.task_type, state.queue, state.labels) for state in states} == {
        ("double", "doubles", ("gpu",))
    }
    connection = await asyncpg.connect(database)
    async with connection.transaction():
        inside = await double.options(connection=connection).submit_many([{"number": 1}])
        assert not await is_stored(app, inside[0])
    await connection.close()
    assert await is_stored(app, inside[0])


async def test_concurrent_submissions_travel_together(app: Mainspring) -> None:
    tasks = await asyncio.gather(*(app.submit("add", {"a": n, "b": 0}) for n in range(300)))
    assert len({task.id for task in tasks}) == 300
    twins = await asyncio.gather(
        *(app.submit("add", {"a": 1, "b": 1}, key="twin") for _ in range(50))
    )
    assert len({task.id for task in twins}) == 1
    assert [task.is_new for task in twins].count(True) == 1


@pytest.mark.parametrize("commits", [True, False])
async def test_asyncpg(app: Mainspring, database: str, commits: bool) -> None:
    connection = await asyncpg.connect(database)
    transaction = connection.transaction()
    await transaction.start()
    task = await app.submit("add", {"a": 1, "b": 2}, connection=connection)
    assert not await is_stored(app, task)
    await (transaction.commit() if commits else transaction.rollback())
    await connection.close()
    assert await is_stored(app, task) is commits


async def test_a_conflict_inside_a_transaction(app: Mainspring, database: str) -> None:
    await app.submit("add", {"a": 1, "b": 2}, key="k")
    connection = await asyncpg.connect(database)
    async with connection.transaction():
        with pytest.raises(KeyConflict):
            await app.submit("add", {"a": 9, "b": 9}, key="k", connection=connection)
    await connection.close()


async def test_something_else_is_no_connection(app: Mainspring) -> None:
    with pytest.raises(InvalidValue) as caught:
        await app.submit("add", {"a": 1, "b": 2}, connection=object())
    assert caught.value.field == "connection"


@pytest.mark.parametrize("commits", [True, False])
def test_psycopg_blocking(blocking: Mainspring, database: str, commits: bool) -> None:
    with psycopg.connect(database) as connection:
        task = blocking.sync.submit("add", {"a": 1, "b": 2}, connection=connection)
        if not commits:
            connection.rollback()
    if commits:
        assert task.refresh().payload == {"a": 1, "b": 2}
    else:
        with pytest.raises(NotFound):
            task.refresh()


@pytest.mark.parametrize("commits", [True, False])
def test_sqlalchemy_session(blocking: Mainspring, database: str, commits: bool) -> None:
    engine = sqlalchemy.create_engine(database.replace("postgresql://", "postgresql+psycopg://"))
    with OrmSession(engine) as session:
        task = blocking.sync.submit("add", {"a": 1, "b": 2}, connection=session)
        session.commit() if commits else session.rollback()
    engine.dispose()
    if commits:
        assert task.refresh().status is TaskStatus.PENDING
    else:
        with pytest.raises(NotFound):
            task.refresh()


def test_a_connection_that_needs_a_loop_is_refused(blocking: Mainspring, database: str) -> None:
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(database))
        with pytest.raises(InvalidValue, match=r"await app\.submit"):
            blocking.sync.submit("add", {"a": 1, "b": 2}, connection=connection)
        connection.terminate()


def test_a_forked_child_submits_on_connections_of_its_own(blocking: Mainspring) -> None:
    first = blocking.sync.submit("add", {"a": 1, "b": 2})
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        task = blocking.sync.submit("add", {"a": 3, "b": 4})
        os.write(writer, str(task.id).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answers:
        child_id = answers.read()
    os.waitpid(pid, 0)
    assert blocking.sync.get(child_id).payload == {"a": 3, "b": 4}
    assert first.refresh().payload == {"a": 1, "b": 2}


def test_after_an_outage_of_the_loop_the_app_goes_on(database: str) -> None:
    """One app in event loops that come and go, as in a script that calls asyncio.run twice."""
    app = Mainspring(Settings(database_url=database))

    async def submit() -> Any:
        async with app:
            return await app.submit("add", {"a": 1, "b": 2})

    first, second = asyncio.run(submit()), asyncio.run(submit())
    assert first.id != second.id
