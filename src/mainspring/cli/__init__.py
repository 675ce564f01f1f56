"""The command line. Commands parse, call one function and print; each loads only what it needs."""

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

_STOPPED: Final = 130
"""`exits.EXIT_STOPPED`, known before anything is loaded."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line and exit with its status."""
    asked = signal.getsignal(signal.SIGINT)
    is_ours = asked is signal.default_int_handler
    if is_ours:
        # Until the program is loaded Ctrl-C would show where in the loading it was.
        signal.signal(signal.SIGINT, _leave)
    run = importlib.import_module("mainspring.cli.root").run
    if is_ours:
        signal.signal(signal.SIGINT, asked)
    status = run(arguments)
    _forget_unsaid()
    sys.exit(status)


def _forget_unsaid() -> None:
    """Drop what could not be written to standard error: Python would try again as its last act, and
    then exit with a status of its own, as if what was done had failed.
    """
    try:
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        sys.stderr = None


def _leave(*_: object) -> None:
    os._exit(_STOPPED)
