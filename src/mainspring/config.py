"""Every setting of Mainspring, declared once; the only reader of the environment.

A value comes from the command line, else from the environment, else from ``mainspring.toml`` (or
the table ``[tool.mainspring]`` of ``pyproject.toml``) in the working directory, else it is the
default. `load` builds the frozen `Settings` once, at the edge of a process, and reports every
problem at once. ``docs/guides/configuration.md`` is the same table for people.
"""

import dataclasses
import difflib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit, urlunsplit

from mainspring.domain.errors import InvalidConfiguration, InvalidValue
from mainspring.domain.priority import Level
from mainspring.domain.values import check_name, shown

PREFIX: Final = "MAINSPRING_"
FILE_NAME: Final = "mainspring.toml"
_WHOLE_NUMBER_LENGTH_MAX: Final = 18


class Facts(NamedTuple):
    """What is known of a setting besides its name, type and default."""

    doc: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    secret: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Settings:
    """The settings of one process. Each field is also the name in ``mainspring.toml``, and in
    upper case after ``MAINSPRING_`` the name in the environment.
    """

    database_url: Annotated[
        str,
        Facts(
            "PostgreSQL to keep tasks in, such as `postgresql://user@host:5432/name`. "
            "Empty: the server that `mainspring up` runs itself",
            secret=True,
        ),
    ] = ""
    database_direct_url: Annotated[
        str,
        Facts(
            "The same database past a pooler such as PgBouncer, for hints between "
            "processes and for migrations. Empty: `database_url`",
            secret=True,
        ),
    ] = ""
    database_pool_size: Annotated[
        int, Facts("Most connections that one process opens", unit="connections", low=2, high=200)
    ] = 8
    data_dir: Annotated[
        Path, Facts("Where `mainspring up` keeps its own PostgreSQL and its state file")
    ] = Path(".mainspring")
    embedded_port: Annotated[
        int,
        Facts(
            "TCP port on 127.0.0.1 for the PostgreSQL that `mainspring up` runs. 0: a socket in "
            "the data directory, which no other user of the machine can reach",
            low=0,
            high=65535,
        ),
    ] = 0
    app: Annotated[
        str, Facts("The app whose handlers workers run, as `MODULE:APP`; the same as `--app`")
    ] = ""
    processes: Annotated[
        int,
        Facts(
            "Runner processes of a worker. 0: one for each processor core",
            unit="processes",
            low=0,
            high=256,
        ),
    ] = 0
    concurrency: Annotated[
        int,
        Facts(
            "`async def` handlers that one runner process executes at a time",
            unit="tasks",
            low=1,
            high=10_000,
        ),
    ] = 100
    threads: Annotated[
        int,
        Facts(
            "Plain `def` handlers that one runner process executes at a time, in threads",
            unit="tasks",
            low=1,
            high=1000,
        ),
    ] = 16
    solo_processes: Annotated[
        int,
        Facts(
            "Tasks at a time that run alone in a process of their own: handlers with "
            "`process=True`, and tasks whose process died before",
            unit="tasks",
            low=1,
            high=256,
        ),
    ] = 2
    queues: Annotated[
        tuple[str, ...],
        Facts("Queues that a worker takes tasks from, separated by commas. Empty: every queue"),
    ] = ()
    levels: Annotated[
        tuple[str, ...],
        Facts(
            "Priority levels that a worker takes tasks from, separated by commas. Empty: "
            "every level",
            choices=tuple(level.value for level in Level),
        ),
    ] = ()
    lease_seconds: Annotated[
        float,
        Facts(
            "How long a worker owns a task without renewing its lease; a dead worker's "
            "tasks run again after this",
            unit="seconds",
            low=1,
            high=3600,
        ),
    ] = 60.0
    heartbeat_seconds: Annotated[
        float,
        Facts(
            "How often a worker renews its leases; at most half of `lease_seconds`",
            unit="seconds",
            low=0.2,
            high=1800,
        ),
    ] = 20.0
    drain_seconds: Annotated[
        float,
        Facts(
            "How long a worker that was told to stop lets running tasks finish before it "
            "hands them back",
            unit="seconds",
            low=0,
            high=86400,
        ),
    ] = 30.0
    grace_seconds: Annotated[
        float,
        Facts(
            "How long a handler may go on after it was told to stop, before its process is ended",
            unit="seconds",
            low=0,
            high=3600,
        ),
    ] = 5.0
    submit_timeout_seconds: Annotated[
        float,
        Facts(
            "Longest that one submission may take, retries included",
            unit="seconds",
            low=0.1,
            high=600,
        ),
    ] = 10.0
    level_limit_seconds: Annotated[
        float,
        Facts(
            "Longest that a task waits in one priority level before it moves up to the next",
            unit="seconds",
            low=1,
            high=30 * 86400,
        ),
    ] = 1800.0
    history_days: Annotated[
        float, Facts("How long finished tasks are kept", unit="days", low=1, high=3650)
    ] = 30.0
    key_days: Annotated[
        float,
        Facts(
            "How long an idempotency key is remembered after its task has finished",
            unit="days",
            low=1,
            high=3650,
        ),
    ] = 7.0
    host: Annotated[str, Facts("Address that the API listens on")] = "127.0.0.1"
    port: Annotated[int, Facts("TCP port of the API. 0: any that is free", low=0, high=65535)] = (
        8400
    )
    auth: Annotated[
        str,
        Facts(
            "Whether the API asks for a key. `off` only serves this machine",
            choices=("on", "off"),
        ),
    ] = "on"
    shed_thresholds: Annotated[
        str,
        Facts(
            "When the API turns new tasks of a level away: `LEVEL=TASKS/SECONDS` for tasks that "
            "are due and how late the oldest is, separated by commas. Empty: the defaults",
        ),
    ] = ""
    api_url: Annotated[
        str, Facts("API that commands use instead of the database, such as `http://host:8400`")
    ] = ""
    api_key: Annotated[str, Facts("Key for that API", secret=True)] = ""
    log_level: Annotated[
        str,
        Facts(
            "The least important messages that are logged",
            choices=("debug", "info", "warning", "error"),
        ),
    ] = "info"
    log_format: Annotated[
        str, Facts("How messages are logged: for people or for machines", choices=("text", "json"))
    ] = "text"

    def __repr__(self) -> str:
        shown_values = (f"{entry.name}={masked(self, entry)!r}" for entry in entries())
        return f"Settings({', '.join(shown_values)})"


class Entry(NamedTuple):
    """One row of the table of settings."""

    name: str
    kind: type
    default: Any
    facts: Facts

    @property
    def variable(self) -> str:
        """The name of the setting in the environment."""
        return PREFIX + self.name.upper()


def entries() -> Iterator[Entry]:
    """Yield every setting, in the order of declaration."""
    hints = get_type_hints(Settings, include_extras=True)
    for field in dataclasses.fields(Settings):
        kind, facts = get_args(hints[field.name])
        yield Entry(field.name, get_origin(kind) or kind, field.default, facts)


def masked(settings: Settings, entry: Entry) -> object:
    """Return the value of a setting as it may be shown: without passwords."""
    value = getattr(settings, entry.name)
    return without_password(value) if entry.facts.secret and value else value


def without_password(url: str) -> str:
    """Return a URL that names the same server and user, with the password masked."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "***"
    if not parts.scheme or not parts.netloc:
        return "***"
    account, at, host = parts.netloc.rpartition("@")
    user, colon, _ = account.partition(":")
    query = "***" if "password" in parts.query.lower() else parts.query
    return urlunsplit((parts.scheme, f"{user}{colon and ':***'}{at}{host}", parts.path, query, ""))


def load(
    overrides: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Settings:
    """Build the settings from the command line (`overrides`; None there means not given), the
    environment, the configuration file in `directory` (default: the working one) and defaults.

    Raises `InvalidConfiguration` with one sentence for each thing that is wrong.
    """
    problems: list[str] = []
    known = {entry.name: entry for entry in entries()}
    values: dict[str, object] = {}
    sources = (
        _from_file(Path.cwd() if directory is None else directory, known, problems),
        _from_environment(os.environ if environ is None else environ, known),
        (
            (name, f"--{name.replace('_', '-')}", value)
            for name, value in (overrides or {}).items()
            if value is not None
        ),
    )
    for source in sources:
        for name, label, value in source:
            try:
                values[name] = _accept(known[name], label, value)
            except InvalidValue as error:
                problems.append(error.message)
    settings = Settings(**values)  # type: ignore[arg-type]
    if not problems:
        problems.extend(_contradictions(settings))
    if problems:
        raise InvalidConfiguration("; ".join(dict.fromkeys(problems)))
    return settings


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the variables that look like settings and are none: most are misspelt."""
    known = {entry.variable for entry in entries()}
    given = os.environ if environ is None else environ
    return sorted(name for name in given if name.startswith(PREFIX) and name not in known)


def child_environment(settings: Settings) -> dict[str, str]:
    """Return the environment for a child process that shall have the same settings."""
    ours = {entry.variable: _as_text(getattr(settings, entry.name)) for entry in entries()}
    return {**os.environ, **ours}


def export(settings: Settings) -> None:
    """Give these settings to the child processes of this one, such as the runners of a worker.

    They go through the environment, where, unlike in arguments, other users cannot read them.
    """
    os.environ.update(child_environment(settings))


def _from_environment(
    environ: Mapping[str, str], known: Mapping[str, Entry]
) -> Iterator[tuple[str, str, object]]:
    for entry in known.values():
        if entry.variable in environ:
            yield entry.name, entry.variable, environ[entry.variable]


def _from_file(
    directory: Path, known: Mapping[str, Entry], problems: list[str]
) -> Iterator[tuple[str, str, object]]:
    for path, table in (
        (directory / FILE_NAME, ()),
        (directory / "pyproject.toml", ("tool", "mainspring")),
    ):
        content = _read_table(path, table, problems)
        if content is None:
            continue
        for name, value in content.items():
            label = f"{name} in {path.name}"
            if name in known:
                yield name, label, value
            else:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {close[0]}?" if close else "; there is no such setting"
                problems.append(label + hint)
        return


def _read_table(
    path: Path, table: tuple[str, ...], problems: list[str]
) -> Mapping[str, object] | None:
    try:
        content: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        # A project file that some other tool broke is not ours to complain about.
        if not table:
            problems.append(f"{path.name} cannot be read: {error}")
        return None
    for name in table:
        content = content.get(name) if isinstance(content, dict) else None
    return content if isinstance(content, dict) else None


def _accept(entry: Entry, label: str, value: object) -> object:
    accept = _ACCEPTORS[entry.kind]
    accepted = accept(entry, label, value)
    if entry.facts.choices:
        given = accepted if isinstance(accepted, tuple) else (accepted,)
        for one in given:
            if one not in entry.facts.choices:
                choices = ", ".join(entry.facts.choices)
                raise InvalidValue(f"{label} is {shown(one)}; choose from {choices}")
    return accepted


def _accept_text(entry: Entry, label: str, value: object) -> str:
    if not isinstance(value, str) or "\x00" in value:
        raise InvalidValue(f"{label} is {shown(value)}; give text")
    text = value.strip()
    if entry.name.startswith("database_") and text:
        _check_database_url(text, label)
    return text.lower() if entry.facts.choices else text


def _check_database_url(text: str, label: str) -> None:
    """The value is not shown: it may hold a password."""
    try:
        scheme = urlsplit(text).scheme
    except ValueError:
        scheme = ""
    if scheme not in {"postgresql", "postgres"}:
        message = (
            f"{label} is not a PostgreSQL URL; write postgresql://user:password@host:5432/name"
        )
        raise InvalidValue(message)


def _accept_path(_entry: Entry, label: str, value: object) -> Path:
    if isinstance(value, str | Path) and str(value) and "\x00" not in str(value):
        return Path(value).expanduser()
    raise InvalidValue(f"{label} is {shown(value)}; give the path of a directory")


def _accept_names(_entry: Entry, label: str, value: object) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        raise InvalidValue(f"{label} is {shown(value)}; give names separated by commas")
    texts = (part.strip() if isinstance(part, str) else part for part in parts)
    return tuple(check_name(text, label) for text in texts if text or not isinstance(value, str))


def _accept_whole(entry: Entry, label: str, value: object) -> int:
    number: object = value
    if isinstance(value, str) and len(value) <= _WHOLE_NUMBER_LENGTH_MAX:
        try:
            number = int(value)
        except ValueError:
            number = value
    if isinstance(number, int) and not isinstance(number, bool) and _within(entry, number):
        return number
    raise InvalidValue(f"{label} is {shown(value)}; give a whole number {_bounds(entry)}")


def _accept_number(entry: Entry, label: str, value: object) -> float:
    number: object = value
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            number = value
    if isinstance(number, int | float) and not isinstance(number, bool) and _within(entry, number):
        return float(number)
    unit = f" of {entry.facts.unit}" if entry.facts.unit else ""
    raise InvalidValue(f"{label} is {shown(value)}; give a number{unit} {_bounds(entry)}")


_ACCEPTORS: Final[dict[type, Callable[[Entry, str, object], object]]] = {
    str: _accept_text,
    Path: _accept_path,
    tuple: _accept_names,
    int: _accept_whole,
    float: _accept_number,
}


def _within(entry: Entry, number: float) -> bool:
    low, high = entry.facts.low, entry.facts.high
    return (low is None or number >= low) and (high is None or number <= high)


def _bounds(entry: Entry) -> str:
    return f"from {entry.facts.low:.10g} to {entry.facts.high:.10g}"


def _as_text(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _contradictions(settings: Settings) -> Iterator[str]:
    if settings.heartbeat_seconds > settings.lease_seconds / 2:
        yield (
            f"heartbeat_seconds is {settings.heartbeat_seconds:g} and lease_seconds is "
            f"{settings.lease_seconds:g}; a heartbeat has to come at least twice in a lease, so "
            f"make it {settings.lease_seconds / 2:g} or less"
        )
