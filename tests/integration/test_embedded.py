"""The embedded server as its users meet it: real processes, real kills."""

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import psutil
import psycopg
import pytest
import sqlalchemy

from fixtures.postgres import VERSIONS, Clusters, bin_dir_of, free_port
from mainspring.adapters.postgres import embedded, server_binaries
from mainspring.adapters.postgres.embedded import EmbeddedPostgres
from mainspring.domain.errors import (
    DataDirectoryInUse,
    DataDirectoryVersionMismatch,
    EmbeddedServerError,
)

pytestmark = pytest.mark.postgres

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

# A process that owns a server and says so, optionally after it has given up root's rights. What it
# imports it imports first, because another user may not be able to read this Python.
_OWNER = """
import os, sys
from importlib import resources
from mainspring.adapters.postgres.embedded import EmbeddedPostgres
resources.files("mainspring")
data_dir, bin_dir, uid = sys.argv[1], sys.argv[2], int(sys.argv[3])
if uid:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
server = EmbeddedPostgres(data_dir, bin_dir=bin_dir)
server.start_blocking()
print(server.pid, server.dsn, flush=True)
sys.stdin.read()
server.stop_blocking()
"""


@pytest.fixture
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Short, so that its socket's path is, too, wherever the checkout is.
    return tmp_path_factory.mktemp("d") / "data"


@pytest.fixture
def used_dir(data_dir: Path, clusters: Clusters) -> Path:
    """The same with data in it."""
    clusters.copy(18, data_dir)
    return data_dir


@pytest.fixture
async def server(used_dir: Path) -> AsyncIterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(used_dir, bin_dir=bin_dir_of(18))
    await server.start()
    yield server
    await server.stop()


class Owner:
    """A process that runs a server."""

    def __init__(self, data_dir: Path, *, uid: int = 0, bin_dir: Path | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _OWNER, data_dir, bin_dir or bin_dir_of(18), str(uid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        pid, _, self.dsn = self.process.stdout.readline().strip().partition(" ")
        self.server = psutil.Process(int(pid))
        self.family = [self.server, *self.server.children(recursive=True)]

    def end(self) -> None:
        self.process.communicate(timeout=60)


def has_ended(process: psutil.Process) -> bool:
    # An orphan that nobody has waited for yet has ended all the same.
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def owner(used_dir: Path) -> Iterator[Owner]:
    owner = Owner(used_dir)
    yield owner
    owner.process.kill()
    owner.end()


async def ask(dsn: str, question: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


async def test_asyncpg_psycopg_sqlalchemy_and_psql_connect_by_the_url(
    server: EmbeddedPostgres,
) -> None:
    question = "SELECT current_database()"
    assert await ask(server.dsn, question) == "mainspring"
    with psycopg.connect(server.dsn) as connection:
        assert connection.execute(question).fetchone() == ("mainspring",)
    engine = sqlalchemy.create_engine(server.dsn.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as alchemy:
        assert alchemy.scalar(sqlalchemy.text(question)) == "mainspring"
    engine.dispose()
    psql = await asyncio.create_subprocess_exec(
        bin_dir_of(18) / "psql", server.dsn, "-Atc", question, stdout=asyncio.subprocess.PIPE
    )
    answer, _ = await psql.communicate()
    assert answer == b"mainspring\n"


async def test_data_survives_a_stop_and_a_second_start(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir, bin_dir=bin_dir_of(18))
    await server.start()
    first = server.dsn
    await ask(first, "CREATE TABLE kept AS SELECT 42 AS answer")
    await server.stop()
    assert server.pid is None
    await server.start()
    try:
        assert server.dsn == first
        assert await ask(server.dsn, "SELECT answer FROM kept") == 42
    finally:
        await server.stop()


async def test_it_is_durable_unless_told_otherwise(used_dir: Path) -> None:
    server = EmbeddedPostgres(
        used_dir, bin_dir=bin_dir_of(18), settings={"synchronous_commit": "off"}
    )
    await server.start()
    try:
        assert await ask(server.dsn, "SHOW fsync") == "on"
        assert await ask(server.dsn, "SHOW synchronous_commit") == "off"
    finally:
        await server.stop()


@pytest.mark.fault
async def test_no_process_outlives_a_killed_parent_and_the_data_does(
    owner: Owner, data_dir: Path
) -> None:
    await ask(owner.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    owner.process.kill()
    _, alive = psutil.wait_procs(owner.family, timeout=30)
    assert not alive
    server = EmbeddedPostgres(data_dir, bin_dir=bin_dir_of(18))
    await server.start()
    try:
        assert await ask(server.dsn, "SELECT answer FROM kept") == 42
    finally:
        await server.stop()


@pytest.mark.fault
async def test_a_start_right_after_the_kill_waits_for_the_old_server(
    owner: Owner, data_dir: Path
) -> None:
    owner.process.kill()
    owner.process.wait()
    server = EmbeddedPostgres(data_dir, bin_dir=bin_dir_of(18))
    await server.start()
    try:
        assert has_ended(owner.server)
        assert await ask(server.dsn, "SELECT 1") == 1
    finally:
        await server.stop()


@pytest.mark.fault
async def test_a_server_killed_in_mid_flight_starts_again(server: EmbeddedPostgres) -> None:
    await ask(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert server.pid is not None
    family = psutil.Process(server.pid).children(recursive=True)
    os.kill(server.pid, signal.SIGKILL)
    psutil.wait_procs(family, timeout=30)
    # Whatever process has the old server's id now must not keep a new one from starting.
    pid_file = server.data_dir / "pgdata" / "postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n" + pid_file.read_text().partition("\n")[2])
    await server.stop()
    await server.start()
    assert await ask(server.dsn, "SELECT answer FROM kept") == 42


@pytest.mark.fault
def test_ctrl_c_in_the_terminal_does_not_reach_the_server(owner: Owner) -> None:
    assert os.getpgid(owner.server.pid) != os.getpgid(owner.process.pid)


def test_a_second_owner_is_refused_with_the_process_that_has_it(
    owner: Owner, data_dir: Path
) -> None:
    second = EmbeddedPostgres(data_dir, bin_dir=bin_dir_of(18))
    with pytest.raises(DataDirectoryInUse, match=rf"in use by the process {owner.process.pid};"):
        second.start_blocking()
    assert owner.server.is_running()


async def test_a_second_start_of_the_same_server_leaves_it_running(
    server: EmbeddedPostgres,
) -> None:
    with pytest.raises(DataDirectoryInUse, match="already running"):
        await server.start()
    assert await ask(server.dsn, "SELECT 1") == 1


async def test_a_server_started_by_hand_is_noticed(used_dir: Path) -> None:
    server = EmbeddedPostgres(used_dir, bin_dir=bin_dir_of(18))
    await server.start()
    assert server.pid is not None
    # What another program that knows nothing of our lock looks like: it has the directory as its
    # working directory and its process id in the file.
    by_hand = (used_dir / "pgdata" / "postmaster.pid").read_text()
    await server.stop()
    other = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", "read -r _", stdin=asyncio.subprocess.PIPE, cwd=used_dir / "pgdata"
    )
    (used_dir / "pgdata" / "postmaster.pid").write_text(
        f"{other.pid}\n" + by_hand.partition("\n")[2]
    )
    with pytest.raises(DataDirectoryInUse, match="Another PostgreSQL runs"):
        await server.start()
    other.kill()
    await other.wait()


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_binaries_of_each_supported_version_run(data_dir: Path, version: int) -> None:
    server = EmbeddedPostgres(data_dir, bin_dir=bin_dir_of(version))
    await server.start()
    try:
        assert server.version.split(".")[0] == str(version)
        assert str(await ask(server.dsn, "SHOW server_version")).startswith(server.version)
    finally:
        await server.stop()


async def test_data_of_another_major_version_is_refused(data_dir: Path, clusters: Clusters) -> None:
    clusters.copy(17, data_dir)
    newer = EmbeddedPostgres(data_dir, bin_dir=bin_dir_of(18))
    with pytest.raises(DataDirectoryVersionMismatch, match="made by PostgreSQL 17 and this is 18"):
        await newer.start()


async def test_an_interrupted_set_up_is_done_again(data_dir: Path) -> None:
    unfinished = data_dir / "pgdata.new"
    unfinished.mkdir(parents=True)
    (unfinished / "PG_VERSION").write_text("18\n")
    server = EmbeddedPostgres(data_dir, bin_dir=bin_dir_of(18))
    await server.start()
    try:
        assert await ask(server.dsn, "SELECT 1") == 1
        assert not unfinished.exists()
    finally:
        await server.stop()


async def test_a_bad_setting_is_named_in_one_sentence(used_dir: Path) -> None:
    server = EmbeddedPostgres(used_dir, bin_dir=bin_dir_of(18), settings={"no_such_setting": "1"})
    with pytest.raises(EmbeddedServerError, match="no_such_setting") as caught:
        await server.start()
    assert str(server.log_file) in str(caught.value)
    assert "\n" not in str(caught.value)
    # The directory is free again.
    good = EmbeddedPostgres(used_dir, bin_dir=bin_dir_of(18))
    await good.start()
    await good.stop()


async def test_a_taken_port_is_named(tmp_path: Path, clusters: Clusters) -> None:
    port = free_port()
    for name in ("first", "second"):
        clusters.copy(18, tmp_path / name)
    first = EmbeddedPostgres(tmp_path / "first", bin_dir=bin_dir_of(18), port=port)
    second = EmbeddedPostgres(tmp_path / "second", bin_dir=bin_dir_of(18), port=port)
    await first.start()
    try:
        with pytest.raises(EmbeddedServerError, match="did not start"):
            await second.start()
    finally:
        await first.stop()


async def test_tcp_asks_for_the_password(data_dir: Path) -> None:
    port = free_port()
    server = EmbeddedPostgres(data_dir, bin_dir=bin_dir_of(18), port=port)
    await server.start()
    try:
        assert await ask(server.dsn, "SELECT 1") == 1
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(f"postgresql://mainspring:wrong@127.0.0.1:{port}/mainspring")
        assert stat.S_IMODE((data_dir / "password").stat().st_mode) == 0o600
    finally:
        await server.stop()


async def test_a_path_too_long_for_a_socket_is_served_by_tcp(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / ("long" * 30), bin_dir=bin_dir_of(18))
    await server.start()
    first = server.dsn
    assert "@127.0.0.1:" in first
    assert await ask(first, "SELECT 1") == 1
    await server.stop()
    # The port is kept for the next start.
    await server.start()
    try:
        assert server.dsn == first
    finally:
        await server.stop()


async def test_a_path_with_spaces_and_percent_signs(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "my data 100%", bin_dir=bin_dir_of(18))
    await server.start()
    try:
        assert await ask(server.dsn, "SELECT 1") == 1
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        await server.stop()


async def test_a_cancelled_start_leaves_nothing_behind(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir, bin_dir=bin_dir_of(18))
    starting = asyncio.create_task(server.start())
    # The start takes its first step, into a thread, and is cancelled there.
    await asyncio.create_task(asyncio.to_thread(lambda: None))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert server.pid is None
    await server.start()
    await server.stop()


@pytest.mark.fault
def test_started_outside_the_main_thread_it_lives_on_and_still_ends_with_the_parent(
    data_dir: Path,
) -> None:
    script = _OWNER.replace(
        "server.start_blocking()",
        "import threading\nt = threading.Thread(target=server.start_blocking)\nt.start()\nt.join()",
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, data_dir, bin_dir_of(18), "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    pid, _, dsn = process.stdout.readline().strip().partition(" ")
    server = psutil.Process(int(pid))
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    process.kill()
    process.communicate()
    assert not psutil.wait_procs([server], timeout=30)[1]


@as_root
async def test_as_root_the_server_is_another_user_and_no_mode_is_changed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    server = EmbeddedPostgres(home / "data", bin_dir=bin_dir_of(18))
    await server.start()
    try:
        assert server.pid is not None
        assert psutil.Process(server.pid).uids().effective != 0
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert stat.S_IMODE((home / "data").stat().st_mode) == 0o700
        assert await ask(server.dsn, "SELECT 1") == 1
    finally:
        await server.stop()


def copy_binaries(home: Path) -> Path:
    install = bin_dir_of(18).parent
    package = install.parent
    shutil.copytree(install, home / package.name / install.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(libraries, home / libraries.name)
    return home / package.name / install.name / "bin"


@pytest.fixture
def private_bin_dir(tmp_path: Path) -> Path:
    """The binaries below a home that nobody else can enter."""
    home = tmp_path / "private"
    home.mkdir(mode=0o700)
    return copy_binaries(home)


@as_root
@pytest.mark.fault
async def test_as_root_binaries_in_a_private_home_are_reached_and_the_copy_vanishes(
    data_dir: Path, private_bin_dir: Path
) -> None:
    owner = Owner(data_dir, bin_dir=private_bin_dir)
    copy = Path(owner.server.exe()).parents[3]
    assert await ask(owner.dsn, "SELECT count(*) > 0 FROM pg_timezone_names") is True
    remover = [
        child
        for child in psutil.Process(owner.process.pid).children()
        if child.pid != owner.server.pid
    ]
    assert copy.parent in map(Path, server_binaries.REACHABLE)
    assert copy.exists()
    owner.process.kill()
    assert not psutil.wait_procs([*owner.family, *remover], timeout=30)[1]
    owner.end()
    assert not copy.exists()
    assert stat.S_IMODE((private_bin_dir.parents[2]).stat().st_mode) == 0o700


@as_root
@pytest.mark.fault
async def test_a_normal_user_runs_it_as_itself() -> None:
    daemon = 1
    place = Path("/var/tmp") / f"mainspring-test-{os.getpid()}-{threading.get_ident()}"
    # Not below pytest's directory, which only root can enter; nor can the checkout be relied on.
    place.mkdir(mode=0o700)
    os.chown(place, daemon, daemon)
    try:
        owner = Owner(place / "data", uid=daemon, bin_dir=copy_binaries(place))
        assert owner.server.uids().effective == daemon
        assert await ask(owner.dsn, "SELECT 1") == 1
        owner.process.kill()
        owner.end()
        assert not psutil.wait_procs(owner.family, timeout=30)[1]
        # Root serves an existing directory as its owner.
        server = EmbeddedPostgres(place / "data", bin_dir=bin_dir_of(18))
        await server.start()
        assert server.pid is not None
        assert psutil.Process(server.pid).uids().effective == daemon
        await server.stop()
    finally:
        shutil.rmtree(place)


def test_a_long_log_begins_anew_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_LONGEST_LOG", 10)
    server = EmbeddedPostgres(tmp_path)
    server.trim_log()
    with server.log_file.open("ab", buffering=0) as log:
        log.write(b"0123456789")
        server.trim_log()
        log.write(b"!")
        server.trim_log()
        log.write(b"new")
    assert server.log_file.read_bytes() == b"new"
    assert server.log_file.with_suffix(".log.1").read_bytes() == b"0123456789!"
