from random import Random

import pytest

from mainspring.domain.cron import CronExpression, InvalidCron
from unit.cron.expressions import random_expression


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("*/5 * * * *", "Every 5 minutes"),
        ("0 9 * * MON-FRI", "At 09:00, Monday through Friday"),
        ("30 2 29 2 *", "At 02:30, on day 29 of the month, only in February"),
        ("@daily", "At 00:00"),
        ("0 0 15W * *", "At 00:00, on the weekday nearest to day 15 of the month"),
        ("0 5 LW * *", "At 05:00, on the last weekday of the month"),
        ("0 0 L,15 * *", "At 00:00, on the last day of the month and day 15"),
        (
            "0 0 L-3W * *",
            "At 00:00, on the weekday nearest to 3 days before the last day of the month",
        ),
        ("0 0 L-1 * *", "At 00:00, on 1 day before the last day of the month"),
        ("0 0 * * FRIL", "At 00:00, on the last Friday of the month"),
        ("0 0 * * MON#1,FRI", "At 00:00, on the first Monday of the month and Friday"),
        ("0 0 13 * 5", "At 00:00, on day 13, and also on Friday"),
        ("0 0 */2 * 1", "At 00:00, on days 1 to 31 in steps of 2, but only if it is Monday"),
        ("0 0 * * */2", "At 00:00, on Sunday, Tuesday, Thursday and Saturday"),
        (
            "0 0 1 1/3 MON",
            "At 00:00, on day 1, and also on Monday, in January, April, July and October",
        ),
        ("*/20,7 0 * * *", "At 0, 7, 20, and 40 minutes past the hour, at 00:00"),
    ],
)
def test_sentence(text: str, sentence: str) -> None:
    assert CronExpression.parse(text).describe() == sentence


def test_every_valid_expression_has_a_sentence() -> None:
    seed = 3
    print(f"seed {seed}")
    random = Random(seed)
    for _ in range(1_500):
        text = random_expression(random)
        try:
            cron = CronExpression.parse(text)
        except InvalidCron:
            continue
        sentence = cron.describe()
        assert sentence[0].isupper(), text
        assert "None" not in sentence, text
        assert "  " not in sentence, text
