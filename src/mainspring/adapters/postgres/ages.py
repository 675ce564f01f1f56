"""The ages at which tasks are served in their lanes, as columns of statements."""

from functools import lru_cache
from typing import Any, NamedTuple

from mainspring.adapters.postgres.arrays import array_of
from mainspring.domain.priority import HIGHEST, LANES, LOWEST, Level, lane_bands, lane_of


class Ages(NamedTuple):
    """At which ages a priority is served in which lane; seconds of waiting."""

    priorities: list[int]
    lanes: list[int]
    youngest: list[float]
    oldest: list[float | None]
    wake_priorities: list[int]
    wake_ages: list[float]


@lru_cache(maxsize=256)
def ages_of(lanes: tuple[Level, ...] | None, limit_seconds: float) -> Ages:
    """Return which ages of which priorities belong to the lanes (None: to all)."""
    wanted = LANES if lanes is None else {lane_of(lane) for lane in lanes}
    rows = [
        (priority, LANES.index(lane) + 1, youngest, oldest)
        for priority in range(HIGHEST, LOWEST + 1)
        for lane, youngest, oldest in lane_bands(priority, limit_seconds)
        if lane in wanted
    ]
    # In all lanes a task can be taken as soon as it is due, and stays so.
    wakes = [(row[0], row[2]) for row in rows if lanes is not None or row[2] == 0]
    return Ages(*_columns(rows, 4), *_columns(wakes, 2))


@lru_cache(maxsize=256)
def arrays_of_ages(lanes: tuple[Level, ...] | None, limit_seconds: float) -> tuple[str, ...]:
    """Return the same columns as texts of arrays."""
    return tuple(array_of(column) for column in ages_of(lanes, limit_seconds))


def _columns(rows: list[Any], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
