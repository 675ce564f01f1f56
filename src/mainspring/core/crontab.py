"""Reading a crontab: which command runs when, with which input and environment."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

import msgspec

from mainspring.domain.errors import InvalidValue
from mainspring.domain.schedule import ScheduleSpec
from mainspring.domain.values import check_name, shown

CRONTAB_BYTES_MAX: Final = 1 << 20
_SETTING: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_NAME: Final = re.compile(r"#\s*name:\s*(\S+)\s*")
_ENTRY: Final = re.compile(r"(@\S+|\S+\s+\S+\s+\S+\s+\S+\s+\S+)\s+(\S.*)")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_SLUG_LENGTH: Final = 60
_DIGEST_LENGTH: Final = 8
_QUOTES: Final = ("'", '"')


class CrontabEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a crontab that runs something."""

    line: int
    name: str
    cron: str
    timezone: str
    command: str
    stdin: str
    environment: dict[str, str]


class CrontabProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a crontab that cannot be used."""

    line: int
    message: str
    field: str | None = None


def read_crontab(
    text: str, timezone: str = "UTC", prefix: str = "cron"
) -> Iterator[CrontabEntry | CrontabProblem]:
    r"""Yield what each line of a crontab means, or what is wrong with it.

    `CRON_TZ=` sets the zone of the lines below it (`timezone` before the first), other settings
    become environment variables of the commands; `MAILTO` is left out. In a command `%` begins
    the standard input and further ones break its lines, and `\%` is a percent sign. A comment
    `# name: x` names the schedule of the next line; others are named after `prefix`, the program
    and a digest of the line, so that the same line has the same name again.
    """
    environment: dict[str, str] = {}
    taken: set[str] = set()
    wanted: str | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            given = _NAME.fullmatch(line)
            wanted = given[1] if given else wanted
            continue
        setting = _SETTING.fullmatch(line)
        if setting is not None:
            name, value = setting[1], _unquoted(setting[2].strip())
            if name == "CRON_TZ":
                timezone = value
            elif name != "MAILTO":
                environment[name] = value
            continue
        try:
            entry = _entry(number, line, timezone, dict(environment))
            entry = msgspec.structs.replace(entry, name=_named(entry, wanted, prefix, taken))
        except InvalidValue as error:
            yield CrontabProblem(line=number, message=error.message, field=error.field)
        else:
            taken.add(entry.name)
            yield entry
        wanted = None


def _entry(number: int, line: str, timezone: str, environment: dict[str, str]) -> CrontabEntry:
    parts = _ENTRY.fullmatch(line)
    if parts is None:
        raise InvalidValue(
            f"the line is {shown(line)}; write five fields or @daily and the like, and a command",
            field="line",
        )
    # Refused here, with its line, rather than when it is stored.
    ScheduleSpec(crons=(parts[1],), timezone=timezone)
    command, stdin = _command(parts[2])
    return CrontabEntry(
        line=number,
        name="",
        cron=parts[1],
        timezone=timezone,
        command=command,
        stdin=stdin,
        environment=environment,
    )


def _command(text: str) -> tuple[str, str]:
    """Split a command from its standard input at the first `%` that is not escaped."""
    parts = [part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", text)]
    if len(parts) == 1:
        return parts[0], ""
    return parts[0], "\n".join(parts[1:]) + "\n"


def _named(entry: CrontabEntry, wanted: str | None, prefix: str, taken: set[str]) -> str:
    if wanted is not None:
        if wanted in taken:
            raise InvalidValue(f"the name {shown(wanted)} is used twice; change one", field="name")
        return check_name(wanted, "name")
    program = PurePosixPath(entry.command.split()[0]).name if entry.command.split() else ""
    slug = _UNSAFE.sub("-", program).strip("-.")[:_SLUG_LENGTH] or "command"
    content = f"{entry.cron}\n{entry.timezone}\n{entry.command}\n{entry.stdin}"
    digest = hashlib.sha256(content.encode(errors="replace")).hexdigest()[:_DIGEST_LENGTH]
    name = f"{prefix}.{slug}-{digest}"
    if name in taken:
        raise InvalidValue("the line is there twice; remove one", field="line")
    return check_name(name, "name")


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] in _QUOTES and value[-1] == value[0]:
        return value[1:-1]
    return value
