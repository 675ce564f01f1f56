"""The environment of this process and of its children. Nothing else reads or writes it."""

import os
from collections.abc import Mapping

from mainspring.config.settings import PREFIX, Settings, entries


def current() -> Mapping[str, str]:
    """Return the environment of this process."""
    return os.environ


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the variables that look like settings and are none: most are misspelt."""
    known = {entry.variable for entry in entries()}
    given = os.environ if environ is None else environ
    return sorted(name for name in given if name.startswith(PREFIX) and name not in known)


def child_environment(settings: Settings) -> dict[str, str]:
    """Return the environment for a child process that shall have the same settings."""
    ours = {entry.variable: _as_text(getattr(settings, entry.name)) for entry in entries()}
    return {**os.environ, **ours}


def foreign_environment() -> dict[str, str]:
    """Return the environment for a program that is not ours: without our settings and secrets."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


def export(settings: Settings) -> None:
    """Give these settings to the child processes of this one, such as the runners of a worker.

    They go through the environment, where, unlike in arguments, other users cannot read them.
    """
    os.environ.update(child_environment(settings))


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)
