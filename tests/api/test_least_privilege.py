"""The services work with a database role that may change rows and nothing else."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest

from api.conftest import Api, started
from mainspring.adapters.postgres.migrate import grant_services
from mainspring.config import Settings
from mainspring.domain.errors import InvalidValue
from mainspring.ports.store import TaskFilter
from mainspring.ports.whole import WholeStore
from mainspring.wiring.checkup import findings
from mainspring.wiring.coordination import open_coordination
from mainspring.wiring.scheduler import scheduler_ownership, scheduler_service
from mainspring.wiring.store import open_store

REFUSED = (
    "CREATE TABLE mainspring.more (id integer)",
    "CREATE SCHEMA more",
    "ALTER TABLE mainspring.tasks ADD COLUMN more integer",
    "ALTER TABLE mainspring.audit DISABLE TRIGGER ALL",
    "DROP TABLE mainspring.task_history_default",
    "TRUNCATE mainspring.tasks",
    "UPDATE mainspring.audit SET actor = 'nobody'",
    "DELETE FROM mainspring.audit",
    "INSERT INTO mainspring.api_keys SELECT * FROM mainspring.api_keys",
    "UPDATE mainspring.api_keys SET scopes = '{admin}'",
    "UPDATE mainspring.namespaces SET submit_rate = NULL",
    "DELETE FROM mainspring.schema_migrations",
    "CREATE FUNCTION mainspring.more() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "SET session_replication_role = replica",
    "COPY mainspring.tasks TO PROGRAM 'cat'",
)


@pytest.fixture
def changes_more_than_rows() -> bool:
    return True


@pytest.fixture
async def services(database: str) -> AsyncIterator[str]:
    """The URL of the database for a role that was given what the services need."""
    role = f"services-{uuid4().hex[:8]}"
    owner = await asyncpg.connect(database)
    try:
        await owner.execute(f'CREATE ROLE "{role}" LOGIN')
        await grant_services(database, role)
        parts = urlsplit(database)
        yield urlunsplit(parts._replace(netloc=parts.netloc.replace("mainspring@", f"{role}@")))
        await owner.execute(f'DROP OWNED BY "{role}"')
        await owner.execute(f'DROP ROLE "{role}"')
    finally:
        await owner.close()


async def test_the_services_can_do_their_work(database: str, services: str) -> None:
    async with started(services) as api:
        # Keys are for the owner to make.
        owner = await open_store(dataclasses.replace(Settings(), database_url=database))
        key = await Api(api.url, owner, api.application, []).key()
        await owner.close()
        async with api.with_key(key) as client:

            async def ask(method: str, path: str, status: int, **body: Any) -> Any:
                answer = await client.request(method, path, json=body or None)
                assert answer.status_code == status, (path, answer.text)
                return answer.json() if answer.content else None

            tasks = [{"task_type": "t", "key": f"k{at}"} for at in range(4)]
            await ask("POST", "/v1/tasks/batch", 207, tasks=tasks)
            waiting = await ask("POST", "/v1/tasks", 201, task_type="t", delay=600)
            await ask("POST", f"/v1/tasks/{waiting['task_id']}/cancel", 200)
            claim = {"worker_id": "w", "task_types": ["t"], "limit": 4}
            leases = (await ask("POST", "/v1/leases", 200, **claim))["leases"]
            held = [
                {name: lease[name] for name in ("task_id", "fencing_token")} for lease in leases
            ]
            assert len(held) == 4
            await ask("POST", "/v1/leases/heartbeat", 200, worker_id="w", leases=held)
            await ask("POST", "/v1/leases/complete", 200, worker_id="w", **held[0])
            for lease in held[1:]:
                failure = {"worker_id": "w", "error": "no", "retry": False}
                await ask("POST", "/v1/leases/fail", 200, **failure, **lease)
            first, second, _ = (lease["task_id"] for lease in held[1:])
            await ask("POST", "/v1/dead-letters/replay", 200, ids=[first])
            await ask("POST", "/v1/dead-letters/discard", 200, ids=[second], reason="no")
            await ask("POST", "/v1/queues/default/pause", 200)
            await ask("POST", "/v1/queues/default/resume", 200)
            await ask("PUT", "/v1/queues/default/limits", 200, queue={"rate": 9})
            await ask("PUT", "/v1/queues/default/limits/groups/g", 200, rate=9)
            await ask("DELETE", "/v1/queues/default/limits/groups/g", 200)
            await ask("PUT", "/v1/queues/default/limits", 200, queue={})
            schedule = {"name": "s", "task_type": "tick", "every": 1.0}
            await ask("POST", "/v1/schedules", 201, **schedule)
            await ask("PATCH", "/v1/schedules/s", 200, priority=1)
            await scheduled(services, api)
            for path in ("/v1/tasks", "/v1/queues", "/v1/workers", "/v1/stats", "/v1/audit"):
                await ask("GET", path, 200)
            assert (await client.get("/metrics")).status_code == 200
        await kept_in_order(api.store)


async def scheduled(services: str, api: Api) -> None:
    """Do the duties of a scheduler until they have made a task of the schedule."""
    settings = dataclasses.replace(Settings(), database_url=services)
    coordination = open_coordination(settings)
    ownership = scheduler_ownership(api.store, coordination, settings)
    duties = asyncio.create_task(scheduler_service(api.store, settings, ownership).run())
    try:
        async with asyncio.timeout(15):
            while not (await api.store.page(TaskFilter(task_type="tick"), 1)).tasks:
                assert not duties.done()
    finally:
        duties.cancel()
        await asyncio.wait([duties])
        await coordination.close()


async def kept_in_order(store: WholeStore) -> None:
    """Everything that the janitor does, months of history included."""
    assert await store.prepare_history(6)
    await store.drop_history(30.0)
    await store.forget_keys(7.0, 10)
    await store.forget_ticks(7.0, 10)
    await store.forget_workers(0.0)


async def test_the_services_cannot_do_anything_else(services: str) -> None:
    connection = await asyncpg.connect(services)
    try:
        for statement in REFUSED:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()


async def test_the_checkup_of_a_service_finds_nothing_wrong(services: str) -> None:
    settings = dataclasses.replace(Settings(), database_url=services)
    found = [finding async for finding in findings(settings)]
    assert all(finding.ok for finding in found), found


async def test_a_role_that_is_missing_is_named(database: str) -> None:
    with pytest.raises(InvalidValue, match="no role 'nobody; DROP'"):
        await grant_services(database, "nobody; DROP")
