"""What the ticks of a schedule must be, whatever happened to its planners."""

from collections import Counter
from datetime import datetime, timedelta

from mainspring.domain.schedule import ScheduleSpec, nominal_times
from mainspring.ports.schedules import Tick, TickOutcome


def judge(spec: ScheduleSpec, made: datetime, cursor: datetime, ticks: list[Tick]) -> list[str]:
    """Hold every nominal time before the cursor against the ticks."""
    found: list[str] = []
    seen: Counter[datetime] = Counter()
    for tick in ticks:
        if tick.outcome is TickOutcome.SKIPPED and tick.reason is None:
            found.append(f"{tick.nominal_at} is skipped for no reason")
        last = tick.until_at or tick.nominal_at
        covered = list(nominal_times(spec, tick.nominal_at, last))
        if len(covered) != tick.count:
            found.append(f"{tick.nominal_at} says {tick.count} times and has {len(covered)}")
        seen.update(covered)
    expected = set(nominal_times(spec, made + timedelta(microseconds=1), cursor)) - {cursor}
    found += [f"{at} is missed" for at in sorted(expected - seen.keys())]
    found += [f"{at} was never a time" for at in sorted(seen.keys() - expected)]
    found += [f"{at} has {count} ticks" for at, count in seen.items() if count > 1]
    return found
