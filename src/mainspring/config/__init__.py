"""Every setting of Mainspring, declared once; the only reader of the environment.

A value comes from the command line, else from the environment, else from ``mainspring.toml`` (or
the table ``[tool.mainspring]`` of ``pyproject.toml``) in the working directory, else it is the
default. `load` builds the frozen `Settings` once, at the edge of a process, and reports every
problem at once. ``docs/guides/configuration.md`` is the same table for people.
"""

from mainspring.config.environment import (
    child_environment,
    export,
    foreign_environment,
    unknown_variables,
)
from mainspring.config.facts import Facts
from mainspring.config.loading import FILE_NAME, load
from mainspring.config.security import is_loopback, is_safe_url
from mainspring.config.settings import (
    PREFIX,
    Entry,
    Settings,
    entries,
    masked,
    without_password,
)
from mainspring.config.shards import shard_settings
from mainspring.config.urls import split_urls

__all__ = [
    "FILE_NAME",
    "PREFIX",
    "Entry",
    "Facts",
    "Settings",
    "child_environment",
    "entries",
    "export",
    "foreign_environment",
    "is_loopback",
    "is_safe_url",
    "load",
    "masked",
    "shard_settings",
    "split_urls",
    "unknown_variables",
    "without_password",
]
