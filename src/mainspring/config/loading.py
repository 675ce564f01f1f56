"""Building the settings from all their sources."""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mainspring.config.accepting import accept
from mainspring.config.calls import call_problems
from mainspring.config.coordination import coordination_problems
from mainspring.config.environment import current
from mainspring.config.ready_queue import ready_queue_problems
from mainspring.config.security import security_problems
from mainspring.config.settings import Entry, Settings, entries
from mainspring.domain.errors import InvalidConfiguration, InvalidValue

FILE_NAME: Final = "mainspring.toml"


def load(
    overrides: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Settings:
    """Build the settings from the command line (`overrides`; None there means not given), the
    environment, the configuration file in `directory` (default: the working one) and defaults.

    Raises `InvalidConfiguration` with one sentence for each thing that is wrong.
    """
    problems: list[str] = []
    known = {entry.name: entry for entry in entries()}
    values: dict[str, object] = {}
    sources = (
        _from_file(Path.cwd() if directory is None else directory, known, problems),
        _from_environment(current() if environ is None else environ, known),
        (
            (name, f"--{name.replace('_', '-')}", value)
            for name, value in (overrides or {}).items()
            if value is not None
        ),
    )
    for source in sources:
        for name, label, value in source:
            try:
                values[name] = accept(known[name], label, value)
            except InvalidValue as error:
                problems.append(error.message)
    settings = Settings(**values)  # type: ignore[arg-type]
    if not problems:
        problems.extend(_contradictions(settings))
    if problems:
        raise InvalidConfiguration("; ".join(dict.fromkeys(problems)))
    return settings


def _from_environment(
    environ: Mapping[str, str], known: Mapping[str, Entry]
) -> Iterator[tuple[str, str, object]]:
    for entry in known.values():
        if entry.variable in environ:
            yield entry.name, entry.variable, environ[entry.variable]


def _from_file(
    directory: Path, known: Mapping[str, Entry], problems: list[str]
) -> Iterator[tuple[str, str, object]]:
    for path, table in (
        (directory / FILE_NAME, ()),
        (directory / "pyproject.toml", ("tool", "mainspring")),
    ):
        content = _read_table(path, table, problems)
        if content is None:
            continue
        for name, value in content.items():
            label = f"{name} in {path.name}"
            if name in known:
                yield name, label, value
            else:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {close[0]}?" if close else "; there is no such setting"
                problems.append(label + hint)
        return


def _read_table(
    path: Path, table: tuple[str, ...], problems: list[str]
) -> Mapping[str, object] | None:
    try:
        content: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        # A project file that some other tool broke is not ours to complain about.
        if not table:
            problems.append(f"{path.name} cannot be read: {error}")
        return None
    for name in table:
        content = content.get(name) if isinstance(content, dict) else None
    return content if isinstance(content, dict) else None


def _contradictions(settings: Settings) -> Iterator[str]:
    yield from security_problems(settings)
    yield from call_problems(settings)
    yield from coordination_problems(settings)
    yield from ready_queue_problems(settings)
    if settings.heartbeat_seconds > settings.lease_seconds / 2:
        yield (
            f"heartbeat_seconds is {settings.heartbeat_seconds:g} and lease_seconds is "
            f"{settings.lease_seconds:g}; a heartbeat has to come at least twice in a lease, so "
            f"make it {settings.lease_seconds / 2:g} or less"
        )
