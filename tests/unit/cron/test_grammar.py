import time
from random import Random

import pytest

from mainspring.domain.cron import CronExpression, InvalidCron
from mainspring.domain.errors import InvalidValue
from unit.cron.expressions import random_expression

REFUSED = [
    # text, what the reason says, what the hint says
    ("", "is empty", "five fields"),
    (" \t ", "is empty", "five fields"),
    ("* * * *", "has 4 fields", "five fields"),
    ("*", "has 1 field;", "five fields"),
    ("* * * * * *", "has 6 fields", "seconds and years have no field"),
    ("0 * * * * * *", "has 7 fields", "seconds and years have no field"),
    ("* * * * * * * *", "has 8 fields", "five fields"),
    ("/5 * * * *", "minute field has '/5'", "'*/5'"),
    ("* /2 * * *", "hour field has '/2'", "'*/2'"),
    ("* * /2 * *", "day of month field has '/2'", "'*/2'"),
    ("* * * * /2", "day of week field has '/2'", "'*/2'"),
    ("/5 * * *", "has 4 fields", "'*/5' for '/5'"),
    ("*/0 * * * *", "not within 1 to 60", "coarser field"),
    ("*/61 * * * *", "not within 1 to 60", "interval schedule"),
    ("*/90 * * * *", "not within 1 to 60", "interval schedule"),
    ("*/1000000 * * * *", "not within 1 to 60", "interval schedule"),
    ("0-59/0 * * * *", "not within 1 to 60", "coarser field"),
    ("* */25 * * *", "not within 1 to 24", "coarser field"),
    ("* * */32 * *", "not within 1 to 31", "coarser field"),
    ("* * * */13 *", "not within 1 to 12", "coarser field"),
    ("* * * * */8", "not within 1 to 7", "coarser field"),
    ("*/ * * * *", "is no number", "'*/5'"),
    ("*/a * * * *", "is no number", "'*/5'"),
    ("*/-1 * * * *", "is no number", "'*/5'"),
    ("*/5/5 * * * *", "is no number", "'*/5'"),
    ("60 * * * *", "'60'", "0 to 59"),
    ("77 * * * *", "'77'", "0 to 59"),
    ("* 24 * * *", "'24'", "0 to 23"),
    ("* * 0 * *", "'0'", "1 to 31"),
    ("* * 32 * *", "'32'", "1 to 31"),
    ("* * * 0 *", "'0'", "1 to 12"),
    ("* * * 13 *", "'13'", "1 to 12"),
    ("* * * * 8", "'8'", "0 to 7"),
    ("5-1 * * * *", "runs backwards", "'5-59,0-1'"),
    ("30-10 * * * *", "runs backwards", "'30-59,0-10'"),
    ("* 22-2 * * *", "runs backwards", "'22-23,0-2'"),
    ("* * 25-5 * *", "runs backwards", "'25-31,1-5'"),
    ("* * * NOV-FEB *", "runs backwards", "'11-12,1-2'"),
    ("1,,2 * * * *", "empty place", "between all commas"),
    (",1 * * * *", "empty place", "between all commas"),
    ("1, * * * *", "empty place", "between all commas"),
    ("-5 * * * *", "lacks a value", "0 to 59"),
    ("5- * * * *", "lacks a value", "0 to 59"),
    ("1-2-3 * * * *", "neither a value", "0 to 59"),
    ("*-5 * * * *", "neither a value", "0 to 59"),
    ("5-* * * * *", "neither a value", "0 to 59"),
    ("+5 * * * *", "neither a value", "0 to 59"),
    ("1.5 * * * *", "neither a value", "0 to 59"),
    ("1_0 * * * *", "neither a value", "0 to 59"),
    ("** * * * *", "neither a value", "0 to 59"),
    ("?/2 * * * *", "whole field", "'*'"),
    ("?,2 * * * *", "whole field", "'*'"),
    ("MON * * * *", "is no minute", "0 to 59"),
    ("* * * MON *", "is no month", "JAN to DEC"),
    ("* * * * JAN", "is no day of week", "SUN to SAT"),
    ("* * * JANUARY *", "spelled out", "JAN"),
    ("* * * * MONDAY", "spelled out", "MON"),
    ("* * W * *", "bare 'W'", "'15W'"),
    ("* * WL * *", "'WL'", "'LW'"),
    ("* * 0W * *", "'0'", "1 to 31"),
    ("* * 32W * *", "'32'", "1 to 31"),
    ("* * L-0 * *", "'L-0'", "'L' is the last day"),
    ("* * L-31 * *", "'L-31'", "1 to 30"),
    ("* * 1-15W * *", "'1-15W'", "'15W'"),
    ("* * 15W/2 * *", "'15W/2'", "without ranges or steps"),
    ("* * L/2 * *", "'L/2'", "without ranges or steps"),
    ("* * LW-1 * *", "'LW-1'", "'L-3W'"),
    ("* * * * L", "bare 'L'", "'FRIL'"),
    ("* * * * 8L", "'8'", "0 to 7"),
    ("* * * * XYZL", "is no day of week", "SUN to SAT"),
    ("* * * * 1-5L", "uses L, W or #", "SUN to SAT"),
    ("* * * * 1W", "uses L, W or #", "SUN to SAT"),
    ("* * * * MON#0", "'MON#0'", "1 to 5"),
    ("* * * * MON#6", "'MON#6'", "1 to 5"),
    ("* * * * MON#", "'MON#'", "1 to 5"),
    ("* * * * MON#-1", "'MON#-1'", "1 to 5"),
    ("* * * * #2", "lacks a value", "SUN to SAT"),
    ("* * * * 1-5#2", "neither a value", "SUN to SAT"),
    ("* * * * 1#2/2", "'1#2/2'", "1 to 5"),
    ("15W * * * *", "uses L, W or #", "0 to 59"),
    ("* L * * *", "is no hour", "0 to 23"),
    ("@reboot", "names no time", "when the process starts"),
    ("@every 1ns", "is an interval", "interval schedule"),
    ("@every 5m", "is an interval", "interval schedule"),
    ("@fortnightly", "is unknown", "@weekly"),
    ("@", "is unknown", "@weekly"),
    ("@daily *", "is unknown", "@weekly"),
    ("\u0663 * * * *", "'\\u0663'", "plain ASCII"),
    ("\uff11 * * * *", "'\\uff11'", "plain ASCII"),
    ("*\u00a0* * * *", "'\\xa0'", "plain ASCII"),
    ("*\x00 * * * *", "'\\x00'", "plain ASCII"),
    ("* * *\n* *", "'\\n'", "plain ASCII"),
    ("*\x1f* * * *", "'\\x1f'", "plain ASCII"),
    ("1," * 50_000 + "1 * * * *", "100009 characters", "at most 256"),
    (" " * 100_000, "100000 characters", "at most 256"),
    ("*" + " *" * 200, "401 characters", "at most 256"),
    ("0 0 30 2 *", "never fires", "a day that exists"),
    ("0 0 31 2 *", "never fires", "a day that exists"),
    ("0 0 31 4 *", "never fires", "a day that exists"),
    ("0 0 31 2,4,6 *", "never fires", "a day that exists"),
    ("0 0 31 2,4,6,9,11 *", "never fires", "a day that exists"),
    ("* * 30,31 2 */2", "never fires", "a day that exists"),
    ("0 0 30W 2 *", "never fires", "a day that exists"),
    ("0 0 L-30 4 *", "never fires", "a day that exists"),
    ("0 0 L-29 2 *", "never fires", "a day that exists"),
    ("0 0 */31 * 1#2", "never fires", "a day that exists"),
]


@pytest.mark.parametrize(("text", "reason", "hint"), REFUSED, ids=lambda part: ascii(part)[:40])
def test_refused_with_reason_and_hint_in_bounded_time(text: str, reason: str, hint: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidCron) as caught:
        CronExpression.parse(text)
    assert time.process_time() - started < 0.05
    error = caught.value
    assert reason in error.message
    assert hint in error.message
    assert error.message.endswith(".")
    assert len(error.message) < 400
    assert error.message.isprintable()
    assert error.code == "invalid_cron"
    assert error.field == "cron_expression"
    assert isinstance(error, InvalidValue)


@pytest.mark.parametrize("value", [None, 5, b"* * * * *", ["*"] * 5])
def test_anything_but_text_is_refused(value: object) -> None:
    with pytest.raises((InvalidCron, TypeError)):
        CronExpression.parse(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("  */5   *\t* * *  ", "*/5 * * * *"),
        ("0 9 * * mon-Fri", "0 9 * * 1-5"),
        ("0 0 1 jan,JUL *", "0 0 1 1,7 *"),
        ("@hourly", "0 * * * *"),
        ("@Daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@WEEKLY", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("0 0 ? * ?", "0 0 * * *"),
        ("05 007 * * *", "5 7 * * *"),
        ("*/1 * * * *", "* * * * *"),
        ("5-5/15 * * * *", "5 * * * *"),
        ("1,1,1,2 * * * *", "1,2 * * * *"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * SUN", "0 0 * * 0"),
        ("0 0 * * 5-7", "0 0 * * 5-7"),
        ("0 0 * * FRI-MON", "0 0 * * 5,6,0,1"),
        ("0 0 * * 5-1/2", "0 0 * * 5,0"),
        ("0 0 * * SAT-SUN", "0 0 * * 6,0"),
        ("0 0 * * 7-2", "0 0 * * 0-2"),
        ("0 0 * * 7-7", "0 0 * * 0"),
        ("0 0 * * 2/2", "0 0 * * 2-6/2"),
        ("0 0 * * 1/3", "0 0 * * 1-6/3"),
        ("0 0 * * 6/3", "0 0 * * 6"),
        ("0 0 * * 7/2", "0 0 * * 0-6/2"),
        ("0 0 * * FRIL", "0 0 * * 5L"),
        ("0 0 * * 7l", "0 0 * * 0L"),
        ("0 0 * * fri#2,7#1", "0 0 * * 5#2,0#1"),
        ("0 0 lw,l-3,L-03w,015W * *", "0 0 LW,L-3,L-3W,15W * *"),
        ("5/15 * * * *", "5/15 * * * *"),
        ("59/15 * * * *", "59/15 * * * *"),
        ("0 0 */2 * */2", "0 0 */2 * */2"),
        ("0 0 1-31 * 1", "0 0 1-31 * 1"),
    ],
)
def test_normalized(text: str, normalized: str) -> None:
    cron = CronExpression.parse(text)
    assert cron.normalized == normalized
    assert cron.text == text
    assert CronExpression.parse(normalized).normalized == normalized


@pytest.mark.parametrize("text", ["0 0 31 4,5 *", "0 0 30 2 1", "0 0 29 2 *", "0 0 * 2 MON#5"])
def test_rare_but_possible_days_are_accepted(text: str) -> None:
    assert CronExpression.parse(text).normalized


def test_any_text_is_accepted_or_refused_cleanly() -> None:
    seed = 20261129
    print(f"seed {seed}")
    random = Random(seed)
    alphabet = "0123456789*/,-?LW# \tMONJAN@adiy\x00\n\u00b2\u0663;'"
    accepted = 0
    for _ in range(10_000):
        if random.random() < 0.5:
            text = "".join(random.choices(alphabet, k=random.randint(0, 30)))
        else:
            valid = random_expression(random)
            at = random.randrange(len(valid))
            text = valid[:at] + random.choice(alphabet) + valid[at + 1 :]
        problem = refusal_of(text)
        accepted += problem is None
        assert problem is None or problem.isprintable(), text
    assert 500 < accepted < 5_000


def refusal_of(text: str) -> str | None:
    try:
        CronExpression.parse(text)
    except InvalidCron as error:
        return error.message
    return None
