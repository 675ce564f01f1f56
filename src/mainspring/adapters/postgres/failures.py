"""What errors of the driver and of the server mean in the words of the domain: one table."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qs, urlsplit

import asyncpg

from mainspring.domain.errors import (
    InvalidValue,
    MainspringError,
    MigrationNeeded,
    OutcomeUnknown,
    PartitionMoving,
    SetupError,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from mainspring.domain.values import hide_secrets

_BY_CODE: Final[dict[str, tuple[type[MainspringError], str]]] = {
    "25006": (StoreReadOnly, "is in read-only mode; point the database URL at the primary server"),
    "53100": (StoreFull, "has no room left on its disk; free some and try again"),
    "53200": (StoreUnavailable, "is out of memory; try again later"),
    "53300": (StoreUnavailable, "has no connection left; raise its max_connections or try later"),
    "55P03": (StoreBusy, "is busy with a lock that somebody holds; try again later"),
    "MS001": (PartitionMoving, "is moving this to another of its shards; try again in a moment"),
    "57014": (StoreBusy, "did not finish the statement in time; nothing was changed"),
    "57P03": (StoreUnavailable, "is starting up or shutting down; try again later"),
    "3D000": (SetupError, "does not have the database that the URL names; create it"),
    "3F000": (MigrationNeeded, "has no Mainspring schema; run `mainspring migrate`"),
    "42P01": (MigrationNeeded, "lacks a table of this version; run `mainspring migrate`"),
    "42703": (MigrationNeeded, "lacks a column of this version; run `mainspring migrate`"),
    "42883": (MigrationNeeded, "lacks a function of this version; run `mainspring migrate`"),
    "42501": (SetupError, "refuses this user the rights it needs; grant them or use another user"),
    "28P01": (SetupError, "refuses the user or password of the database URL; correct them"),
    "28000": (SetupError, "refuses the user of the database URL; name one that may log in"),
}

_BY_CLASS: Final[dict[str, tuple[type[MainspringError], str]]] = {
    "08": (StoreUnavailable, "closed the connection; try again later"),
    "22": (InvalidValue, "refuses a value"),
    "23": (InvalidValue, "refuses a value"),
    "40": (StoreBusy, "was too busy with conflicting changes; try again"),
    "53": (StoreUnavailable, "is short of resources; try again later"),
    "57": (StoreUnavailable, "is shutting down or closed the connection; try again later"),
    "58": (StoreFull, "cannot write to its disk; see its log"),
}

DRIVER_ERRORS: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""Everything that the driver raises. A connection that was cut at the wrong moment shows as an
error of the driver's own state.
"""

RETRIED_CODES: Final = frozenset({"40P01", "40001"})
"""Deadlocks and serialisation failures: the server undid everything, so repeating is safe."""

UNIQUE_VIOLATION: Final = "23505"
LOCK_TIMEOUT: Final = "55P03"
MOVING: Final = "MS001"
"""Raised by the guard of the migration 0017, and by nothing else."""

_BROKEN_CODES: Final = frozenset({"57P01", "57P02", "57P05", "08003", "08006", "08000", "08P01"})
"""The connection ended, perhaps after the commit and before its answer."""


def sqlstates(error: BaseException) -> Iterator[str]:
    """Yield the SQLSTATEs that an error of any driver, and what it wraps, carries."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        code = getattr(link, "sqlstate", None) or getattr(link, "pgcode", None)
        if isinstance(code, str):
            yield code
        link = getattr(link, "orig", None) or link.__cause__


def translated(error: BaseException, *, wrote: bool, server: str = "") -> MainspringError:
    """Return the error of the domain for one of the driver; ``wrote``: a write had been sent to
    ``server``.
    """
    where = f"the task store{server and f' at {server}'}"
    code = next(sqlstates(error), None)
    lost = isinstance(
        error, OSError | TimeoutError | asyncpg.InterfaceError | asyncpg.InternalClientError
    ) or (code in _BROKEN_CODES)
    if lost and wrote:
        return OutcomeUnknown(
            "the connection to the task store broke after the request was sent, so it may or may "
            "not have taken effect; repeat it if it may be repeated, or look"
        )
    if code is not None:
        known = _BY_CODE.get(code) or _BY_CLASS.get(code[:2])
        if known is not None:
            return _named(known[0], f"{where} {known[1]}", error)
    if lost:
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        return StoreUnavailable(
            f"{where} cannot be reached ({hide_secrets(reason)}); check that PostgreSQL runs there "
            "and that the database URL is right"
        )
    return StoreUnavailable(f"the task store failed: {error}")


def server_of(dsn: str) -> str:
    """Return the host and port that a database URL names, or the directory of the socket; nothing
    when it cannot be read.
    """
    try:
        parts = urlsplit(dsn)
    except ValueError:
        return ""
    return parts.netloc.rpartition("@")[2] or parse_qs(parts.query).get("host", [""])[0]


def _named(kind: type[MainspringError], meaning: str, error: BaseException) -> MainspringError:
    if issubclass(kind, InvalidValue):
        field = getattr(error, "column_name", None) or getattr(error, "constraint_name", None)
        return kind(f"{meaning}: {error}", field=field)
    return kind(meaning)
