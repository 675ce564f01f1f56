"""What a schedule does with times it missed, and with a previous run that is not finished."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from mainspring.domain.errors import InvalidValue

LIMIT_MAX = 10_000
DEFAULT_LIMIT = 100
_SHORTEST_WINDOW = timedelta(seconds=10)
_LONGEST_WINDOW = timedelta(days=366)
_LONGEST_TOLERANCE = timedelta(hours=1)


class MisfireRule(StrEnum):
    """Which of the nominal times that passed unplanned (down, paused, blocked) still run."""

    RUN_ONCE = "run_once"
    SKIP = "skip"
    RUN_ALL = "run_all"


class OverlapRule(StrEnum):
    """What happens at a nominal time while an earlier run of the schedule is unfinished."""

    SKIP = "skip"
    BUFFER_ONE = "buffer_one"
    BUFFER_ALL = "buffer_all"
    CANCEL_PREVIOUS = "cancel_previous"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class MisfirePolicy:
    """How missed nominal times are caught up.

    ``rule``: `RUN_ONCE` (default) runs the latest missed time only, `SKIP` none, `RUN_ALL` the
    newest ``limit`` of them, oldest first. ``window`` (default 24 hours, 10 seconds to 366 days):
    times older than it never run. ``tolerance`` (default 30 seconds, at most one hour): lateness
    up to it is ordinary and no misfire. ``limit``: 1 to 10,000, default 100. Every time that does
    not run is recorded as skipped with its reason.
    """

    rule: MisfireRule = MisfireRule.RUN_ONCE
    window: timedelta = timedelta(hours=24)
    limit: int = DEFAULT_LIMIT
    tolerance: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        if not _SHORTEST_WINDOW <= self.window <= _LONGEST_WINDOW:
            raise InvalidValue(
                f"The misfire window is {self.window}; choose 10 seconds to 366 days.",
                field="misfire_window",
            )
        if not timedelta() <= self.tolerance <= min(self.window, _LONGEST_TOLERANCE):
            raise InvalidValue(
                f"The misfire tolerance is {self.tolerance}; choose at most one hour and no more"
                " than the misfire window.",
                field="misfire_tolerance",
            )
        if not 1 <= self.limit <= LIMIT_MAX:
            raise InvalidValue(
                f"The misfire limit is {self.limit}; choose 1 to {LIMIT_MAX} runs.",
                field="misfire_limit",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapPolicy:
    """How many runs of one schedule may be unfinished at a time.

    ``limit`` is the number of runs at a time for `ALLOW` (None: any number) and the number of
    waiting runs for `BUFFER_ALL` (None: 100); the other rules have none.
    """

    rule: OverlapRule = OverlapRule.SKIP
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.limit is None:
            return
        if self.rule not in (OverlapRule.ALLOW, OverlapRule.BUFFER_ALL):
            raise InvalidValue(
                f"The overlap policy {self.rule.value!r} takes no limit; leave it out, or use"
                " 'allow' or 'buffer_all'.",
                field="overlap_limit",
            )
        if not 1 <= self.limit <= LIMIT_MAX:
            raise InvalidValue(
                f"The overlap limit is {self.limit}; choose 1 to {LIMIT_MAX}.",
                field="overlap_limit",
            )

    @property
    def buffer_size(self) -> int:
        """How many nominal times may wait for the previous run to finish."""
        if self.rule is OverlapRule.BUFFER_ONE:
            return 1
        if self.rule is OverlapRule.BUFFER_ALL:
            return self.limit or DEFAULT_LIMIT
        return 0
