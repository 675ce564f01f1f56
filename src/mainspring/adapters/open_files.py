"""How many files and connections this process may have open."""

import resource
from contextlib import suppress


def raise_open_files() -> int:
    """Let the process open as many as its administrator allows, and return how many that are.

    Programs are commonly started with 1,024 for the sake of those that use select(2); the limit
    that is meant is the hard one.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems say that there is no limit and accept less: then it stays as it is.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft
