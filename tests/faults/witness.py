"""A witness inside the database: which process changed which row under whose lease or epoch.

Each process has a role of its own, so the server itself says who wrote. What the product believes
of itself is not asked. The witness sees only what was committed.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

import asyncpg

WORKER = "fault_worker_"
SCHEDULER = "fault_scheduler_"
_PASSWORD = "fault"

_INSTALL = """
    CREATE SCHEMA witness;
    CREATE TABLE witness.tasks (
        at timestamptz NOT NULL DEFAULT clock_timestamp(), who text NOT NULL DEFAULT session_user,
        task uuid, old_status text, old_token bigint, old_expires timestamptz,
        new_status text, new_token bigint);
    CREATE TABLE witness.plans (
        at timestamptz NOT NULL DEFAULT clock_timestamp(), who text NOT NULL DEFAULT session_user,
        what text, partition integer, epoch bigint);
    CREATE TABLE witness.epochs (
        who text NOT NULL DEFAULT session_user, partition integer, epoch bigint);

    CREATE FUNCTION witness.see_task() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO witness.tasks (task, old_status, old_token, old_expires, new_status, new_token)
        SELECT OLD.id, OLD.status, OLD.fencing_token, OLD.lease_expires_at,
            CASE TG_OP WHEN 'UPDATE' THEN NEW.status END,
            CASE TG_OP WHEN 'UPDATE' THEN NEW.fencing_token END;
        RETURN NULL;
    END $$;
    CREATE TRIGGER witness AFTER UPDATE OR DELETE ON mainspring.tasks
        FOR EACH ROW EXECUTE FUNCTION witness.see_task();

    CREATE FUNCTION witness.see_plan() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO witness.plans (what, partition, epoch)
        SELECT TG_OP || ' of ' || TG_TABLE_NAME, f.partition, f.epoch
        FROM mainspring.partitions f WHERE f.partition = mainspring.partition_of(
            CASE TG_TABLE_NAME WHEN 'ticks' THEN (to_jsonb(NEW) ->> 'schedule_id')::uuid
                ELSE (to_jsonb(NEW) ->> 'id')::uuid END);
        RETURN NULL;
    END $$;
    CREATE TRIGGER witness AFTER INSERT OR UPDATE ON mainspring.ticks
        FOR EACH ROW EXECUTE FUNCTION witness.see_plan();
    CREATE TRIGGER witness AFTER UPDATE ON mainspring.schedules
        FOR EACH ROW EXECUTE FUNCTION witness.see_plan();

    CREATE FUNCTION witness.see_epoch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO witness.epochs (partition, epoch) VALUES (NEW.partition, NEW.epoch);
        RETURN NULL;
    END $$;
    CREATE TRIGGER witness AFTER UPDATE ON mainspring.partitions
        FOR EACH ROW WHEN (NEW.epoch IS DISTINCT FROM OLD.epoch)
        EXECUTE FUNCTION witness.see_epoch();
"""

# Who leased which task under which token is seen in the claim itself.
_STALE_WORKERS = """
    SELECT w.who || ' changed ' || w.task || ' from ' || w.old_status || ' to '
        || coalesce(w.new_status, 'its end') || ' under token ' || w.old_token || ' of ' || c.who
    FROM witness.tasks w JOIN witness.tasks c
        ON c.task = w.task AND c.new_token = w.old_token AND c.new_status = 'running'
        AND c.old_status <> 'running'
    WHERE w.old_status = 'running' AND w.who LIKE $1 || '%' AND c.who <> w.who
"""
_EARLY_RESCUES = """
    SELECT w.who || ' took ' || w.task || ' back ' || w.old_expires - w.at || ' too early'
    FROM witness.tasks w
    WHERE w.old_status = 'running' AND w.who LIKE $1 || '%' AND w.old_expires > w.at
"""
_FALLING_TOKENS = """
    SELECT w.who || ' lowered the token of ' || w.task FROM witness.tasks w
    WHERE w.new_token < w.old_token
"""
_STALE_SCHEDULERS = """
    SELECT p.who || ': ' || p.what || ' of partition ' || p.partition || ' under epoch ' || p.epoch
        || ' of ' || e.who
    FROM witness.plans p JOIN witness.epochs e USING (partition, epoch)
    WHERE p.who LIKE $1 || '%' AND e.who <> p.who
"""
_TWO_OWNERS = """
    SELECT 'partition ' || partition || ' has two owners under epoch ' || epoch
    FROM witness.epochs GROUP BY partition, epoch HAVING count(*) > 1
"""


@dataclass(frozen=True)
class Seen:
    """How much the witness saw: nothing is proved by a witness who was asleep."""

    claims: int
    endings: int
    plans: int
    epochs: int


class Witness:
    """Watches one database."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._roles: list[str] = []

    async def install(self) -> None:
        """Watch from now on."""
        await self._execute(_INSTALL)

    async def role(self, name: str, tcp_url: str) -> str:
        """Make a role; returns the URL of its own."""
        url = urlsplit(tcp_url)
        await self._execute(f"CREATE ROLE {name} LOGIN SUPERUSER PASSWORD '{_PASSWORD}'")
        self._roles.append(name)
        return f"postgresql://{name}:{_PASSWORD}@{url.hostname}:{url.port}{url.path}"

    async def forget(self) -> None:
        """Remove the roles, which belong to the server and not to the database."""
        for role in self._roles:
            await self._execute(f"DROP ROLE {role}")

    async def violations(self) -> list[str]:
        """Every change that somebody made who had no right to it any more."""
        connection = await asyncpg.connect(self._url)
        try:
            found = [
                *await connection.fetch(_STALE_WORKERS, WORKER),
                *await connection.fetch(_EARLY_RESCUES, SCHEDULER),
                *await connection.fetch(_FALLING_TOKENS),
                *await connection.fetch(_STALE_SCHEDULERS, SCHEDULER),
                *await connection.fetch(_TWO_OWNERS),
            ]
        finally:
            await connection.close()
        return [record[0] for record in found]

    async def seen(self) -> Seen:
        """What it saw."""
        connection = await asyncpg.connect(self._url)
        try:
            record = await connection.fetchrow(
                "SELECT count(*) FILTER (WHERE new_status = 'running' AND old_status <> 'running'),"
                " count(*) FILTER (WHERE new_status IS NULL AND who LIKE $1 || '%'),"
                " (SELECT count(*) FROM witness.plans WHERE who LIKE $2 || '%'),"
                " (SELECT count(*) FROM witness.epochs) FROM witness.tasks",
                *(WORKER, SCHEDULER),
            )
        finally:
            await connection.close()
        assert record is not None
        return Seen(*record)

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self._url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()
