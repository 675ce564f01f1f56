"""How other commands find the database that `mainspring up` runs: a small file beside its data."""

import json
import os
from pathlib import Path
from typing import Final, NamedTuple

FILE_NAME: Final = "mainspring.json"


class Running(NamedTuple):
    """A running `mainspring up`."""

    pid: int
    database_url: str


def write(data_dir: Path, database_url: str) -> None:
    """Say that this process runs the database of a data directory. Its owner alone can read it."""
    path = data_dir / FILE_NAME
    fresh = path.with_suffix(f".{os.getpid()}")
    text = json.dumps({"pid": os.getpid(), "database_url": database_url})
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    fresh.replace(path)


def read(data_dir: Path) -> Running | None:
    """Return what runs on a data directory; None if nothing does, or it died."""
    try:
        content = json.loads((data_dir / FILE_NAME).read_text())
        running = Running(int(content["pid"]), str(content["database_url"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return running if _is_alive(running.pid) else None


def remove(data_dir: Path) -> None:
    """Say that nothing runs on a data directory any more."""
    (data_dir / FILE_NAME).unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
