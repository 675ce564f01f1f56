"""A PostgreSQL data directory: made once and completely, checked before each use."""

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from mainspring.adapters.postgres.server_account import ServerAccount
from mainspring.adapters.postgres.server_binaries import ENVIRONMENT
from mainspring.domain.errors import (
    DataDirectoryInUse,
    DataDirectoryVersionMismatch,
    EmbeddedServerError,
)

_INITDB_OPTIONS = (
    "--username=mainspring",
    # The socket lies in a directory that only the owner can enter, so the file system
    # authenticates; TCP is open to every user of the machine and asks for the password.
    "--auth-local=trust",
    "--auth-host=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",
    "--data-checksums",
)
_SET_UP_SCRIPT = resources.files(__package__).joinpath("embedded_database.sql").read_text()
# The line of postmaster.pid that holds the state of the server, counted from 0.
_STATE_LINE = 7
_LOG_TAIL_BYTES = 8192
_TELLING = ("FATAL", "PANIC", "ERROR", "error:", "ermission denied", "No space left")


@dataclass(frozen=True, slots=True)
class Cluster:
    """The files of one data directory and the account that owns the cluster in it."""

    data_dir: Path
    account: ServerAccount
    bin_dir: Path

    @property
    def path(self) -> Path:
        """The directory that PostgreSQL knows as its data directory."""
        return cluster_path(self.data_dir)

    def check_version(self, version: str) -> None:
        """Raise DataDirectoryVersionMismatch unless servers of ``version`` can use the data."""
        made_by = (self.path / "PG_VERSION").read_text().strip()
        if made_by != version.partition(".")[0]:
            raise DataDirectoryVersionMismatch(
                f"the data directory {self.data_dir} was made by PostgreSQL {made_by} and this "
                f"is {version}; move its data with pg_dump and pg_restore, "
                "or choose another directory"
            )

    def make(self, inherited: Sequence[int]) -> None:
        """Make the cluster with the role and the database ``mainspring``.

        It is made under another name and renamed when complete, so that an interrupted set-up is
        never taken for a cluster. The tools inherit the descriptors in ``inherited``.
        """
        fresh = self.path.with_name("pgdata.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        self.account.own(fresh)
        self._run(fresh, inherited, lambda path: ["initdb", "-D", path, *_INITDB_OPTIONS])
        password = secrets.token_urlsafe(24)
        secret = password_file(self.data_dir)
        secret.touch(mode=0o600)
        secret.write_text(password + "\n")
        self._run(
            fresh,
            inherited,
            lambda path: ["postgres", "--single", "-D", path, "template1"],
            statements=_SET_UP_SCRIPT.replace("{password}", password),
        )
        fresh.rename(self.path)

    def _run(
        self,
        cluster: Path,
        inherited: Sequence[int],
        command: Callable[[str], list[str]],
        *,
        statements: str = "",
    ) -> None:
        with self.opened(cluster) as (fd, path), log_file(self.data_dir).open("ab") as log:
            tool, *options = command(path)
            result = subprocess.run(
                [self.bin_dir / tool, *options],
                input=statements.encode(),
                stdout=log,
                stderr=log,
                env=ENVIRONMENT,
                cwd="/",
                pass_fds=(fd, *inherited),
                start_new_session=True,
                check=False,
                **self.account.run_as,
            )
        if result.returncode != 0:
            raise EmbeddedServerError(
                f"the data directory {self.data_dir} could not be set up: "
                f"{last_words(self.data_dir)}; the log is {log_file(self.data_dir)}"
            )

    @contextmanager
    def opened(self, cluster: Path) -> Iterator[tuple[int, str]]:
        """Hold a cluster directory open; yields the descriptor and the server's name for it."""
        fd = os.open(cluster, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield fd, self.account.path_of(cluster, fd)
        finally:
            os.close(fd)

    def is_ready(self, pid: int) -> bool:
        """True when the server ``pid`` accepts connections."""
        lines = self._pid_file()
        return (
            len(lines) > _STATE_LINE
            and lines[0] == str(pid)
            and lines[_STATE_LINE].strip() == "ready"
        )

    def remove_stale_pid_file(self) -> None:
        """Remove what a killed server left; only for the holder of the directory's lock.

        No server that Mainspring started is alive then. PostgreSQL itself would be misled if the
        old process id had been given to another process since, which in containers is the rule.
        A server that was started by hand has the cluster as its working directory.
        """
        lines = self._pid_file()
        if not lines or sys.platform != "linux":
            return
        with suppress(OSError):
            if Path(f"/proc/{lines[0]}/cwd").samefile(self.path):
                raise in_use_by_hand(self.data_dir)
        for left in (self.path / "postmaster.pid", *self.path.glob(".s.PGSQL.*")):
            left.unlink(missing_ok=True)

    def _pid_file(self) -> list[str]:
        try:
            return (self.path / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []


def cluster_path(data_dir: Path) -> Path:
    """Where the cluster lies in a data directory."""
    return data_dir / "pgdata"


def log_file(data_dir: Path) -> Path:
    """Where the server's messages go."""
    return data_dir / "postgres.log"


def password_file(data_dir: Path) -> Path:
    """Where the password for TCP lies, readable by its owner alone."""
    return data_dir / "password"


def port_file(data_dir: Path) -> Path:
    """Where the TCP port is remembered, for a server that had to choose one."""
    return data_dir / "port"


def last_words(data_dir: Path) -> str:
    """The reason for a failure: the last line of the log that states one."""
    with log_file(data_dir).open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
        lines = log.read().decode(errors="replace").splitlines()
    telling = [line for line in lines if any(word in line for word in _TELLING)]
    last = (telling or lines or ["no reason was given"])[-1]
    return (last.partition("] ")[2] or last).rstrip(".")


def in_use_by_hand(data_dir: Path) -> DataDirectoryInUse:
    """The error for a server that runs on the cluster although nobody holds our lock."""
    return DataDirectoryInUse(
        f"Another PostgreSQL runs on the data directory {data_dir}; "
        "stop it or choose another directory"
    )
