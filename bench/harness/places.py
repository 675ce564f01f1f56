"""Where things are. Everything that a run makes stays below `bench`, or in shared memory."""

from pathlib import Path
from typing import Final

BENCH: Final = Path(__file__).resolve().parent.parent
ROOT: Final = BENCH.parent
PEERS: Final = BENCH / "peers"
CONTESTANT: Final = BENCH / "contestant"
ENVIRONMENTS: Final = BENCH / ".venvs"
"""One virtual environment for each contestant; ignored by git."""

RUNS: Final = BENCH / ".runs"
"""Data directories of servers, logs and results of runs; ignored by git."""

MEMORY: Final = Path("/dev/shm") if Path("/dev/shm").is_dir() else RUNS  # noqa: S108
"""Where the handlers leave their marks: no disk in the way of what is measured."""
