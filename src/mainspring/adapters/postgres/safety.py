"""Whether a server keeps the promise that an acknowledged task is on disk.

A server with the settings that this finds works, and faster; it just loses tasks with the power.
So they are reported, loudly and every time, rather than refused.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from mainspring.adapters.postgres.failures import DRIVER_ERRORS, translated
from mainspring.adapters.postgres.migrate import SERVER_MIN
from mainspring.adapters.postgres.pool import connect
from mainspring.adapters.postgres.queries import QUERIES

_SETTINGS: Final = QUERIES["safety_settings"].sql
_READ_ONLY: Final = QUERIES["is_read_only"].sql
_VERSION_DIVISOR: Final = 10_000


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    subject: str
    severity: Severity
    message: str


async def inspect(dsn: str, *, session: bool = True) -> list[Finding]:
    """Look at a server's settings and return what was found, good and bad.

    ``session`` False sends no session settings, as a pooler wants it. Raises `StoreUnavailable`
    when the server cannot be asked.
    """
    connection = await connect(dsn, session=session)
    try:
        async with connection.transaction():
            rows = await connection.fetch(_SETTINGS)
            read_only = await connection.fetchval(_READ_ONLY)
    except DRIVER_ERRORS as error:
        raise translated(error, wrote=False) from error
    finally:
        await connection.close()
    settings = {row["name"]: row["setting"] for row in rows}
    return findings(settings, read_only=read_only)


def findings(settings: Mapping[str, str], *, read_only: bool) -> list[Finding]:
    """Judge the settings of a server."""
    major = int(settings["server_version_num"]) // _VERSION_DIVISOR
    return [
        _judged(
            "version",
            major >= SERVER_MIN,
            f"PostgreSQL {major}",
            f"PostgreSQL {major} is too old; Mainspring needs {SERVER_MIN} or newer",
            Severity.ERROR,
        ),
        _judged(
            "writable",
            not read_only,
            "the server accepts writes",
            "the server is read-only; point the database URL at the primary server",
            Severity.ERROR,
        ),
        *durability(settings),
    ]


def durability(settings: Mapping[str, str]) -> list[Finding]:
    """Judge whether an acknowledged commit survives a crash, a loss of power and, where standbys
    are there for it, the loss of the machine.
    """
    commit = settings["synchronous_commit"]
    lost = ""
    if commit == "off":
        lost = "in a crash"
    elif commit == "local" and settings["synchronous_standby_names"]:
        lost = "when a standby takes over, although there are synchronous ones"
    return [
        _judged(
            "fsync",
            settings["fsync"] == "on",
            "fsync is on",
            "fsync is off: a power failure destroys the database; set fsync = on",
        ),
        _judged(
            "synchronous_commit",
            not lost,
            f"synchronous_commit is {commit}",
            f"synchronous_commit is {commit}: tasks that were acknowledged last are lost {lost}; "
            "set synchronous_commit = on",
        ),
        _judged(
            "full_page_writes",
            settings["full_page_writes"] == "on",
            "full_page_writes is on",
            "full_page_writes is off: a power failure can damage pages beyond repair; set "
            "full_page_writes = on unless the file system writes whole pages",
        ),
    ]


def _judged(
    subject: str, good: object, fine: str, bad: str, severity: Severity = Severity.WARNING
) -> Finding:
    if good:
        return Finding(subject=subject, severity=Severity.OK, message=fine)
    return Finding(subject=subject, severity=severity, message=bad)
