"""The command line. Commands parse, call one function and print; each loads only what it needs."""

from mainspring.cli.root import main

__all__ = ["main"]
