"""The table of settings."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit, urlunsplit

from mainspring.config.calls import CallSettings
from mainspring.config.coordination import CoordinationSettings
from mainspring.config.facts import Facts
from mainspring.config.ready_queue import ReadyQueueSettings
from mainspring.config.remote import RemoteSettings
from mainspring.config.rpc import RpcSettings
from mainspring.config.security import SecuritySettings
from mainspring.config.urls import split_urls
from mainspring.domain.priority import Level

PREFIX: Final = "MAINSPRING_"


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Settings(
    CoordinationSettings,
    ReadyQueueSettings,
    CallSettings,
    SecuritySettings,
    RemoteSettings,
    RpcSettings,
):
    """The settings of one process. Each field is also the name in ``mainspring.toml``, and in
    upper case after ``MAINSPRING_`` the name in the environment.
    """

    database_url: Annotated[
        str,
        Facts(
            "PostgreSQL to keep tasks in, such as `postgresql://user@host:5432/name`. Several, "
            "separated by commas (a list in the file), are shards. "
            "Empty: the server that `mainspring up` runs itself",
            secret=True,
        ),
    ] = ""
    database_direct_url: Annotated[
        str,
        Facts(
            "The same database past a pooler such as PgBouncer, for hints between "
            "processes and for migrations; with shards a list in the same order. "
            "Empty: `database_url`",
            secret=True,
        ),
    ] = ""
    database_read_url: Annotated[
        str,
        Facts(
            "A streaming replica of the same database, for lists, counts and answers that may be "
            "a little old; with shards a list in the same order. Empty: there is none",
            secret=True,
        ),
    ] = ""
    read_staleness_seconds: Annotated[
        float,
        Facts(
            "How old lists and counts may be. A replica that is further behind is not asked",
            unit="seconds",
            low=0.1,
            high=3600,
        ),
    ] = 5.0
    database_pooled: Annotated[
        bool,
        Facts(
            "`database_url` leads through PgBouncer or the like in transaction mode. Also true "
            "when `database_direct_url` is set",
        ),
    ] = False
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
    labels: Annotated[
        tuple[str, ...],
        Facts(
            "What a worker offers to tasks that need it, separated by commas: gpu,region=eu. It "
            "takes tasks without labels as well"
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
    shell_tasks: Annotated[
        bool,
        Facts(
            "Run tasks of the built-in type `shell`: whoever may submit tasks can then run any "
            "command as the user of the worker",
        ),
    ] = False
    history_days: Annotated[
        float, Facts("How long finished tasks are kept", unit="days", low=1, high=3650)
    ] = 30.0
    key_days: Annotated[
        float,
        Facts(
            "How long an idempotency key is remembered, from its submission on and in any case "
            "while its task is live",
            unit="days",
            low=1,
            high=3650,
        ),
    ] = 7.0
    host: Annotated[str, Facts("Address that the API and `health_port` listen on")] = "127.0.0.1"
    port: Annotated[int, Facts("TCP port of the API. 0: any that is free", low=0, high=65535)] = (
        8400
    )
    health_port: Annotated[
        int,
        Facts(
            "TCP port, on `host`, on which a worker or a scheduler answers `/health/live` and "
            "`/health/ready`, without a key; the API has both on its own port. 0: any that is "
            "free. -1: none",
            low=-1,
            high=65535,
        ),
    ] = -1
    auth: Annotated[
        bool, Facts("Whether the API asks for a key. Without it only this machine is served")
    ] = True
    graphql: Annotated[
        bool,
        Facts(
            "Whether the API answers GraphQL at `/graphql`; needs the extra: "
            "`pip install 'mainspring[graphql]'`",
        ),
    ] = False
    shed_thresholds: Annotated[
        str,
        Facts(
            "When the API turns new tasks of a level away: `LEVEL=TASKS/SECONDS` for tasks that "
            "are due and how late the oldest is, separated by commas. Empty: the defaults",
        ),
    ] = ""
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
    """Yield every setting, in the order of declaration; those of a part come last."""
    hints = get_type_hints(Settings, include_extras=True)
    parts = {
        field.name
        for part in (
            RemoteSettings,
            CallSettings,
            SecuritySettings,
            CoordinationSettings,
            ReadyQueueSettings,
            RpcSettings,
        )
        for field in dataclasses.fields(part)
    }
    for field in sorted(dataclasses.fields(Settings), key=lambda field: field.name in parts):
        kind, facts = get_args(hints[field.name])
        yield Entry(field.name, get_origin(kind) or kind, field.default, facts)


def masked(settings: Settings, entry: Entry) -> object:
    """Return the value of a setting as it may be shown: without passwords."""
    value = getattr(settings, entry.name)
    if not entry.facts.secret or not value:
        return value
    if not entry.name.endswith("_url"):
        return "***"
    urls = value.split(",") if entry.name == "etcd_url" else split_urls(value)
    return ",".join(without_password(url.strip()) for url in urls)


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
