"""Unique keys under load, from SQL, and inside the transactions of callers."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from uuid import UUID

import asyncpg
import pytest

from fixtures.postgres import PostgresServer
from integration.postgres.callers import RollbackError, with_asyncpg
from integration.postgres.steps import claim, new_task
from mainspring.adapters.postgres.caller import PostgresCallerTransactions
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore, open_store
from mainspring.adapters.system import SystemClock
from mainspring.core.group_commit import GroupCommit
from mainspring.core.options import BOTH_KEYS
from mainspring.domain.errors import InvalidValue, PartitionMoving
from mainspring.domain.ids import deciding_key, key_tail
from mainspring.domain.task import CancelState, LeaseRef, NewTask, Submission
from mainspring.ports.store import TaskFilter

pytestmark = pytest.mark.postgres
CLIENTS = 5
SUBMITTERS = 50
KEYS = 6
ROUNDS = 10
EACH = 3


@pytest.fixture(scope="module")
def database(postgres_server: PostgresServer) -> Iterator[str]:
    """One for all tests here: what they leave are tasks."""
    name = asyncio.run(postgres_server.create_database(migrated=True))
    yield postgres_server.dsn(name)
    asyncio.run(postgres_server.drop_database(name))


@pytest.fixture(autouse=True)
async def empty(sql: asyncpg.Connection) -> None:
    for table in ("tasks", "idempotency"):
        await sql.execute(f"DELETE FROM mainspring.{table}")


@asynccontextmanager
async def opened(database: str) -> AsyncIterator[list[PostgresStore]]:
    async with AsyncExitStack() as stack:
        found = [await open_store(PoolOptions(dsn=database)) for _ in range(CLIENTS)]
        for store in found:
            stack.push_async_callback(store.close)
        yield found


@pytest.fixture
async def stores(database: str) -> AsyncIterator[list[PostgresStore]]:
    async with opened(database) as found:
        yield found


async def deadlocks(sql: asyncpg.Connection) -> int:
    """Those of all other sessions, which are counted for good when they end."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    while await sql.fetchval(others) > 1:
        pass
    found: int = await sql.fetchval(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    return found


async def live_by_key(sql: asyncpg.Connection) -> Counter[tuple[str | None, str]]:
    rows = await sql.fetch("SELECT group_key, unique_key FROM mainspring.tasks")
    return Counter((row[0], row[1]) for row in rows)


async def test_fifty_submitters_make_one_live_task_of_each_key(
    stores: list[PostgresStore], sql: asyncpg.Connection, rng: random.Random
) -> None:
    """Each submits all keys, in an order of its own, in one batch; all at the same time."""
    keys = [(group, f"u{n}") for group in (None, "g") for n in range(KEYS)]

    async def submitter(store: PostgresStore, seed: int) -> list[tuple[object, Submission]]:
        chance = random.Random(seed)
        mine = chance.sample(keys, len(keys))
        tasks = [new_task(group_key=group, unique_key=key) for group, key in mine]
        tasks.insert(chance.randrange(len(tasks)), new_task(key="k", fingerprint="f"))
        answers = await store.submit(tasks)
        return [
            ((task.group_key, task.unique_key), answer)
            for task, answer in zip(tasks, answers, strict=True)
        ]

    seeds = [rng.getrandbits(32) for _ in range(SUBMITTERS)]
    found = await asyncio.gather(
        *(submitter(stores[n % CLIENTS], seed) for n, seed in enumerate(seeds))
    )
    ids: dict[object, set[UUID]] = {}
    made: Counter[object] = Counter()
    for key, answer in (pair for pairs in found for pair in pairs):
        assert not answer.conflict
        ids.setdefault(key, set()).add(answer.id)
        made[key] += answer.is_new
    assert all(len(one) == 1 for one in ids.values())
    assert made == Counter(dict.fromkeys([*keys, (None, None)], 1))
    assert await live_by_key(sql) == Counter(dict.fromkeys([*keys, (None, None)], 1))


async def test_keys_that_come_free_at_any_moment_are_never_taken_twice(
    database: str, sql: asyncpg.Connection, rng: random.Random
) -> None:
    """Submitters and cancellers of the same few keys: whoever is told of a new task made it, and
    between two of a key the first has ended. Nobody waits for another in a circle.
    """
    made: dict[UUID, str] = {}
    ended: set[UUID] = set()
    done: list[None] = []

    async def submitter(store: PostgresStore, seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(ROUNDS):
            keys = [f"u{chance.randrange(KEYS)}" for _ in range(chance.randrange(1, 2 * KEYS))]
            tasks = [new_task(unique_key=key) for key in keys]
            for key, answer in zip(keys, await store.submit(tasks), strict=True):
                assert not answer.conflict
                if answer.is_new:
                    assert answer.id not in made
                    made[answer.id] = key
        done.append(None)

    async def canceller(store: PostgresStore) -> None:
        while len(done) < EACH * CLIENTS:
            live = [task.task_id for task in (await store.page(TaskFilter(), KEYS)).tasks]
            states = await store.cancel(live)
            for task_id, state in zip(live, states, strict=True):
                if state is CancelState.CANCELLED:
                    ended.add(task_id)

    async with opened(database) as stores:
        await asyncio.gather(
            *(canceller(store) for store in stores),
            *(submitter(store, rng.getrandbits(32)) for store in stores for _ in range(EACH)),
        )
    left = {row[0] for row in await sql.fetch("SELECT id FROM mainspring.tasks")}
    assert ended | left == set(made)
    assert len({made[one] for one in left}) == len(left)
    assert await deadlocks(sql) == 0


GATE = """
    CREATE FUNCTION pg_temp.wait() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock_shared(7);
        RETURN NEW;
    END $$;
    CREATE TRIGGER gate {when} INSERT ON mainspring.tasks
        FOR EACH ROW EXECUTE FUNCTION pg_temp.wait();
    SELECT pg_advisory_lock(7);
"""


async def waits(sql: asyncpg.Connection, kind: str) -> None:
    """Return when somebody waits for a lock."""
    count = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = $1"
    while not await sql.fetchval(count, kind):
        pass


@asynccontextmanager
async def connected(database: str) -> AsyncIterator[tuple[asyncpg.Connection, ...]]:
    """Connections of two callers, who wait for as long as it takes."""
    async with AsyncExitStack() as stack:
        found = [await asyncpg.connect(database) for _ in range(2)]
        for connection in found:
            stack.push_async_callback(connection.close)
        yield tuple(found)


async def test_whoever_looks_again_lets_go_of_its_keys_first(
    database: str, sql: asyncpg.Connection
) -> None:
    """The first has `b` and finds `a` taken, which comes free before it looks by whom. The second
    has `a` by then and waits for `b`.
    """

    caller = PostgresCallerTransactions()
    live = new_task(unique_key="a")
    ours = [new_task(unique_key=key) for key in ("b", "a")]
    theirs = [new_task(unique_key=key) for key in ("b", "a")]
    async with opened(database) as stores, connected(database) as (one, other):
        await stores[0].submit([live])
        await sql.execute(GATE.format(when="AFTER"))
        first = asyncio.create_task(caller.submit(one, ours))
        await waits(sql, "advisory")
        await stores[2].cancel([live.id])
        second = asyncio.create_task(caller.submit(other, theirs))
        await waits(sql, "transactionid")
        await sql.execute("SELECT pg_advisory_unlock(7)")
        assert await second == [Submission(task.id) for task in theirs]
        assert await first == [Submission(task.id, is_new=False) for task in theirs]
    await sql.execute("DROP TRIGGER gate ON mainspring.tasks")
    assert await deadlocks(sql) == 0


async def test_a_task_that_ends_while_its_repeated_submission_looks_for_it(
    database: str, sql: asyncpg.Connection
) -> None:
    """It is there when it is to be stored, and not any more when it is looked for."""
    caller = PostgresCallerTransactions()
    task = new_task(key="k", fingerprint="f")
    async with opened(database) as stores, connected(database) as (one, other):
        await stores[0].submit([task])
        (lease,) = await claim(stores[0])
        await sql.execute(GATE.format(when="BEFORE"))
        again = asyncio.create_task(caller.submit(one, [task]))
        await waits(sql, "advisory")
        async with other.transaction():
            # What is refused gives the table back for a moment, and this is next in line for it.
            table = asyncio.create_task(other.execute("LOCK TABLE mainspring.tasks"))
            await waits(sql, "relation")
            await sql.execute("SELECT pg_advisory_unlock(7)")
            await table
            assert await caller.complete(other, LeaseRef(lease.id, lease.fencing_token), None)
        assert await again == [Submission(task.id, is_new=False)]
        await sql.execute("DROP TRIGGER gate ON mainspring.tasks")
        assert await live_by_key(sql) == {}


async def submitted(
    caller: PostgresCallerTransactions, tasks: list[NewTask], connection: asyncpg.Connection
) -> list[Submission]:
    return await caller.submit(connection, tasks)


async def test_a_callers_transaction_holds_the_key_until_it_ends(
    stores: list[PostgresStore], database: str
) -> None:
    caller = PostgresCallerTransactions()
    mine = new_task(unique_key="k", group_key="g")
    with pytest.raises(RollbackError):
        await with_asyncpg(database, partial(submitted, caller, [mine]), commit=False)
    connection = await asyncpg.connect(database)
    try:
        transaction = connection.transaction()
        await transaction.start()
        assert await caller.submit(connection, [mine]) == [Submission(mine.id)]
        other = new_task(unique_key="k", group_key="g")
        commits = GroupCommit(stores[0], SystemClock())
        waiting = asyncio.create_task(commits.submit(other))
        await asyncio.wait([waiting], timeout=0.05)
        assert not waiting.done()
        await transaction.commit()
        assert await waiting == Submission(mine.id, is_new=False)
        assert (
            await caller.submit(connection, [other, mine])
            == [Submission(mine.id, is_new=False)] * 2
        )
    finally:
        await connection.close()


async def test_tasks_that_were_changed_after_they_were_built_are_refused(
    stores: list[PostgresStore],
) -> None:
    for fields, field in (
        ({"unique_key": "u", "key": "k"}, "unique_key"),
        ({"unique_key": ""}, "unique_key"),
        ({"group_key": ""}, "group_key"),
        ({"group_key": "g" * 256}, "group_key"),
    ):
        with pytest.raises(InvalidValue) as caught:
            await stores[0].submit([new_task(**fields)])
        assert caught.value.field == field


async def test_the_function_takes_groups_unique_keys_and_labels(
    sql: asyncpg.Connection, stores: list[PostgresStore]
) -> None:
    submit = "SELECT mainspring.submit_v2('t', '{\"a\": 1}', "
    first = await sql.fetchval(
        f"{submit} group_key => 'g', unique_key => 'u', labels => ARRAY['gpu', 'a=1', 'gpu'])"
    )
    assert await sql.fetchval(f"{submit} unique_key => 'u', group_key => 'g')") == first
    plain = await sql.fetchval(f"{submit} unique_key => 'u')")
    assert plain != first
    assert first.int & 0xFFFF == key_tail("g")
    assert plain.int & 0xFFFF == key_tail("u")
    (row,) = await sql.fetch(
        "SELECT queue, status, group_key, unique_key, key FROM mainspring.tasks WHERE id = $1",
        first,
    )
    assert tuple(row) == ("default@a=1,gpu", "coming", "g", "u", None)
    answer = await stores[0].submit([new_task(unique_key="u")])
    assert answer == [Submission(plain, is_new=False)]
    # A key means the same through both functions, and is another's with another group.
    keyed = await sql.fetchval("SELECT mainspring.submit('t', key => 'k')")
    assert await sql.fetchval("SELECT mainspring.submit_v2('t', key => 'k')") == keyed
    with pytest.raises(asyncpg.UniqueViolationError, match="used before for a different task"):
        await sql.fetchval("SELECT mainspring.submit_v2('t', key => 'k', group_key => 'g')")


async def test_the_function_refuses_what_python_refuses(sql: asyncpg.Connection) -> None:
    for arguments, message in (
        ("key => 'k', unique_key => 'u'", BOTH_KEYS),
        ("unique_key => ''", "unique_key is ''; a unique key has 1 to 255 printable characters"),
        ("group_key => E'a\\nb'", "a group key has 1 to 255 printable"),
        ("group_key => repeat('g', 256)", "group_key is 'g"),
        ("key => ''", "key is ''; an idempotency key has 1 to 255 printable characters"),
        ("labels => ARRAY['a b']", "labels names 'a b'; a label has"),
        ("labels => ARRAY[NULL]", "labels names 'NULL'"),
        ("labels => ARRAY['a=1', 'a=2']", "labels names 'a' twice"),
        ("labels => string_to_array('a,b,c,d,e,f,g,h,i', ',')", "labels has 9 labels"),
        ("queue => 'a b'", "queue is 'a b'"),
        ("priority => 11", "priority is 11"),
    ):
        with pytest.raises(asyncpg.InvalidParameterValueError) as caught:
            await sql.fetchval(f"SELECT mainspring.submit_v2('t', {arguments})")
        assert message in str(caught.value)


def test_the_group_decides_before_the_unique_key_and_that_before_the_key() -> None:
    assert deciding_key("g", "u", None) == "g"
    assert deciding_key("g", None, "k") == "g"
    assert deciding_key(None, "u", None) == "u"
    assert deciding_key(None, None, "k") == "k"
    assert deciding_key(None, None, None) is None


@pytest.mark.parametrize("options", [{}, {"group_key": "g"}], ids=["plain", "group"])
async def test_a_key_is_not_forgotten_while_a_submission_relies_on_it(
    stores: list[PostgresStore], sql: asyncpg.Connection, options: dict[str, str]
) -> None:
    caller = PostgresCallerTransactions()
    known = await stores[0].submit([new_task(key="k", fingerprint="f", **options)])
    assert await stores[0].cancel([known[0].id]) == [CancelState.CANCELLED]
    await sql.execute("UPDATE mainspring.idempotency SET created_at = '2001-01-01Z'")
    async with sql.transaction():
        again = new_task(key="k", fingerprint="f", **options)
        assert await caller.submit(sql, [again]) == [Submission(known[0].id, is_new=False)]
        assert await stores[0].forget_keys(30.0, 10) == 0
    assert await stores[0].forget_keys(30.0, 10) == 1


async def test_what_moves_is_refused_as_such(database: str, sql: asyncpg.Connection) -> None:
    """Whoever hears that it moves sends it to another shard, so no other word will do."""
    guard = "SELECT mainspring.guard_partitions_v1(ARRAY(SELECT generate_series(0, $1)))"
    await sql.execute(guard, 63)
    try:
        async with opened(database) as stores:
            for fields in ({}, {"unique_key": "u"}, {"group_key": "g"}):
                with pytest.raises(PartitionMoving):
                    await stores[0].submit([new_task(**fields)])
    finally:
        await sql.execute(guard, -1)


async def test_whom_a_callers_transaction_holds_up_holds_up_nobody_else(
    stores: list[PostgresStore], database: str
) -> None:
    """With a unique key, with a key, and with the first task of a queue."""
    caller, commits = PostgresCallerTransactions(), GroupCommit(stores[0], SystemClock())
    connection = await asyncpg.connect(database)
    try:
        for fields in ({"unique_key": "u"}, {"key": "k", "fingerprint": "f"}, {"queue": "new"}):
            async with connection.transaction():
                (first,) = await caller.submit(connection, [new_task(**fields)])
                waiting = asyncio.create_task(commits.submit(new_task(**fields)))
                others = [new_task() for _ in range(3)]
                answers = await asyncio.gather(*map(commits.submit, others))
                assert answers == [Submission(task.id) for task in others]
                assert not waiting.done()
            answer = await waiting
            assert answer.is_new == ("queue" in fields)
            assert answer.is_new or answer.id == first.id
    finally:
        await commits.close()
        await connection.close()
