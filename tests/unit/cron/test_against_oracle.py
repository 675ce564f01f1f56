"""The whole grammar against an independent reading that looks at every day and minute."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from random import Random

import pytest
from cronsim import CronSim

from mainspring.domain.cron import CronExpression, InvalidCron
from unit.cron.expressions import random_expression
from unit.cron.oracle import Oracle

SEEDS = range(8)
EXPRESSIONS_PER_SEED = 2_520
HORIZON = timedelta(days=800)


def random_wall(random: Random) -> datetime:
    first = datetime.fromisoformat("2000-01-01T00:00")
    return first + timedelta(minutes=random.randrange(40 * 365 * 1440))


def naive_fires(cron: CronExpression, start: datetime, last_day: date) -> Iterator[datetime]:
    for fire in cron.iterate(start.replace(tzinfo=UTC)):
        wall = fire.replace(tzinfo=None)
        if wall.date() > last_day:
            return
        yield wall


@pytest.mark.parametrize("seed", SEEDS)
def test_fires_equal_those_of_the_oracle(seed: int) -> None:
    print(f"seed {seed}")
    random = Random(seed)
    never = 0
    for _ in range(EXPRESSIONS_PER_SEED):
        text = random_expression(random)
        start = random_wall(random)
        last_day = (start + HORIZON).date()
        expected = list(islice(Oracle(text).walls(start, last_day), 2))
        try:
            cron = CronExpression.parse(text)
        except InvalidCron as error:
            if expected or "never fires" not in error.message:
                pytest.fail(f"{text!r} was refused: {error.message}")
            never += 1
            continue
        assert list(islice(naive_fires(cron, start, last_day), 2)) == expected, (text, start)
        again = CronExpression.parse(cron.normalized)
        assert again.normalized == cron.normalized, text
        assert again.next_after(start.replace(tzinfo=UTC)) == cron.next_after(
            start.replace(tzinfo=UTC)
        )
    assert never < EXPRESSIONS_PER_SEED // 50


def test_refused_as_impossible_only_what_the_oracle_never_finds() -> None:
    texts = ["0 0 30 2 *", "0 0 31 4,6 *", "0 0 31W 2,4 *", "0 0 L-30 9 *", "0 0 */31 * 1#2"]
    for text in texts:
        with pytest.raises(InvalidCron, match="never fires"):
            CronExpression.parse(text)
        oracle = Oracle(text)
        assert not any(oracle.on(date(2000, 1, 1) + timedelta(days=n)) for n in range(28 * 366))


def test_the_search_equals_cronsims_own_iteration() -> None:
    """The day, hour and minute search replaces cronsim's; its dates and sets stay the judge."""
    seed = 44
    print(f"seed {seed}")
    random = Random(seed)
    compared = 0
    while compared < 1_000:
        text = random_expression(random)
        try:
            cron = CronExpression.parse(text)
        except InvalidCron:
            continue
        if cron.matcher.fields.day_offsets:
            continue
        start = random_wall(random)
        expected = list(islice(CronSim(cron.normalized, start), 3))
        found = list(islice(cron.iterate(start.replace(tzinfo=UTC)), 3))
        assert [fire.replace(tzinfo=None) for fire in found] == expected, text
        compared += 1
