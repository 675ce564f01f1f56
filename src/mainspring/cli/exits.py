"""Exit statuses, and which error has which."""

from typing import Final

from mainspring.domain.errors import (
    AppNotFound,
    Conflict,
    InvalidConfiguration,
    InvalidValue,
    MainspringError,
    NotFound,
    Unavailable,
    WaitTimedOut,
)

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNREACHABLE: Final = 3
EXIT_CONFLICT: Final = 4
EXIT_STOPPED: Final = 130
"""Ended by Ctrl-C before it was done, as shells have it."""

_BY_KIND: Final[tuple[tuple[type[MainspringError], int], ...]] = (
    (WaitTimedOut, EXIT_FAILED),
    (Unavailable, EXIT_UNREACHABLE),
    (InvalidConfiguration, EXIT_USAGE),
    (AppNotFound, EXIT_USAGE),
    (InvalidValue, EXIT_USAGE),
    (NotFound, EXIT_CONFLICT),
    (Conflict, EXIT_CONFLICT),
)


def exit_code_of(error: MainspringError) -> int:
    """Return the exit status that stands for an error."""
    return next((code for kind, code in _BY_KIND if isinstance(error, kind)), EXIT_FAILED)
