"""Bringing a database to the schema of this version, and saying whether it is there.

Migrations are numbered files. Each runs in a transaction of its own under one lock, so that any
number of processes may start at once on an empty database, and leaves a record with the digest of
its text. A file that begins with ``-- no-transaction`` runs statement by statement, for what
PostgreSQL refuses inside a transaction; its statements must be safe to repeat.
"""

import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Final, NamedTuple

import asyncpg

from mainspring.adapters.postgres.failures import DRIVER_ERRORS, translated
from mainspring.adapters.postgres.pool import connect
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.shards import label_in
from mainspring.domain.errors import (
    InvalidValue,
    MigrationDrift,
    MigrationNeeded,
    UnsupportedServer,
)
from mainspring.domain.shards import ShardLabel
from mainspring.domain.values import shown

SERVER_MIN: Final = 15
_FILE: Final = re.compile(r"(\d{4})_(\w+)\.sql")
_NO_TRANSACTION: Final = "-- no-transaction"
_LOCK: Final = 0x6D61696E  # "main": the number by which migrating processes know each other.
_CREATE_RECORDS: Final = QUERIES["create_migration_records"].sql
_HAS_RECORDS: Final = QUERIES["has_migration_records"].sql
_APPLIED: Final = QUERIES["applied_migrations"].sql
_RECORD: Final = QUERIES["record_migration"].sql
_GRANT: Final = QUERIES["grant_services"].sql


class Migration(NamedTuple):
    """One numbered file."""

    number: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        """The digest of its text, by which a changed file is recognised."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def in_transaction(self) -> bool:
        """Whether it runs as a whole or not at all."""
        return not self.sql.startswith(_NO_TRANSACTION)


def migrations(package: str = "mainspring.adapters.postgres") -> tuple[Migration, ...]:
    """Return the migrations of this version in their order."""
    found = []
    for file in (files(package) / "migrations").iterdir():
        match = _FILE.fullmatch(file.name)
        if match is not None:
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return tuple(sorted(found))


async def migrate(dsn: str, known: Sequence[Migration] | None = None) -> list[Migration]:
    """Bring the database to this version and return what was done; nothing if it is there.

    Raises `UnsupportedServer`, `MigrationDrift` or `StoreUnavailable`.
    """
    known = migrations() if known is None else known
    connection = await _connected(dsn, is_bounded=False)
    try:
        await _lock(connection)
        await connection.execute(_CREATE_RECORDS)
        applied = await _applied(connection, known)
        missing = [migration for migration in known if migration.number not in applied]
        for migration in missing:
            await _apply(connection, migration)
    except DRIVER_ERRORS as error:
        raise translated(error, wrote=True) from error
    else:
        return missing
    finally:
        await connection.close()


async def grant_services(dsn: str, role: str) -> None:
    """Give a role what the services need: rows, and nothing that changes the schema.

    Raises `InvalidValue` when there is no such role.
    """
    connection = await _connected(dsn, is_bounded=False)
    try:
        await connection.execute(_GRANT, role)
    except asyncpg.UndefinedObjectError:
        message = f"the database has no role {shown(role)}; make one that may log in first"
        raise InvalidValue(message, field="grant_to") from None
    except DRIVER_ERRORS as error:
        raise translated(error, wrote=True) from error
    finally:
        await connection.close()


async def plan(dsn: str, known: Sequence[Migration] | None = None) -> list[Migration]:
    """Return what `migrate` would do, without doing it."""
    known = migrations() if known is None else known
    connection = await _connected(dsn)
    try:
        async with connection.transaction(readonly=True):
            applied = await _applied(connection, known)
        return [migration for migration in known if migration.number not in applied]
    except DRIVER_ERRORS as error:
        raise translated(error, wrote=False) from error
    finally:
        await connection.close()


async def check(
    dsn: str, known: Sequence[Migration] | None = None, *, session: bool = True
) -> ShardLabel | None:
    """Return which shard the database is, if any, when it is as this version needs it.

    Raises `MigrationNeeded` when it is older or empty, `MigrationDrift` when it is newer or other.
    ``session`` False sends no session settings, as a pooler wants it.
    """
    known = migrations() if known is None else known
    connection = await _connected(dsn, session=session)
    try:
        # One transaction, so that a pooler keeps to one server meanwhile.
        async with connection.transaction(readonly=True):
            applied = await _applied(connection, known)
            missing = [migration for migration in known if migration.number not in applied]
            label = None if missing else await label_in(connection)
    except DRIVER_ERRORS as error:
        raise translated(error, wrote=False) from error
    finally:
        await connection.close()
    if missing:
        state = "has no Mainspring schema" if not applied else "has an older schema"
        raise MigrationNeeded(
            f"the database {state} ({len(missing)} migrations to do); run `mainspring migrate`"
        )
    return label


async def _connected(
    dsn: str, *, session: bool = True, is_bounded: bool = True
) -> asyncpg.Connection:
    """Connect. Not `is_bounded`: a statement may take as long as it likes, as a migration does."""
    unbounded = {} if is_bounded else {"statement_timeout": "0"}
    connection = await connect(dsn, session=session, **unbounded)
    version = connection.get_server_version()
    if version.major < SERVER_MIN:
        await connection.close()
        raise UnsupportedServer(
            f"the database server is PostgreSQL {version.major}; Mainspring needs {SERVER_MIN} or "
            "newer"
        )
    return connection


async def _applied(connection: asyncpg.Connection, known: Sequence[Migration]) -> set[int]:
    """Return the numbers of what was applied, once it is certain that it is the same as ours."""
    if not await connection.fetchval(_HAS_RECORDS):
        return set()
    rows = await connection.fetch(_APPLIED)
    ours = {migration.number: migration for migration in known}
    for row in rows:
        migration = ours.get(row["number"])
        if migration is None:
            raise MigrationDrift(
                f"the database has the migration {row['number']:04}_{row['name']}, which this "
                "version does not know; it belongs to a newer version of Mainspring: install that"
            )
        if migration.digest != row["digest"]:
            raise MigrationDrift(
                f"the migration {row['number']:04}_{migration.name} is not the one that was "
                "applied to the database; install the version that made the database, or restore "
                "the file"
            )
    return {row["number"] for row in rows}


async def _lock(connection: asyncpg.Connection) -> None:
    """Be the only one that migrates, until the session ends.

    Polled rather than waited for, because a waiting statement has a snapshot, and whoever has the
    lock may be building an index concurrently, which waits for all of those.
    """
    while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):
        await connection.execute("SELECT pg_sleep(0.05)")


async def _apply(connection: asyncpg.Connection, migration: Migration) -> None:
    if not migration.in_transaction:
        for statement in _statements(migration.sql):
            await connection.execute(statement)
        await _record(connection, migration)
        return
    async with connection.transaction():
        await connection.execute(migration.sql)
        await _record(connection, migration)


async def _record(connection: asyncpg.Connection, migration: Migration) -> None:
    await connection.execute(_RECORD, migration.number, migration.name, migration.digest)


def _statements(sql: str) -> list[str]:
    """Split a file at the semicolons that end a line; such files hold no function bodies."""
    bare = "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--"))
    return [part.strip() for part in re.split(r";[ \t]*(?:\n|$)", bare) if part.strip()]
