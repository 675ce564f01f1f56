from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.core.options import (
    DEFAULTS,
    TaskOptions,
    check_backoff,
    checked_options,
    fingerprint,
)
from mainspring.core.submission import complete_options
from mainspring.domain.errors import InvalidValue
from mainspring.domain.retry import Backoff, BackoffKind

MOMENT = datetime(2026, 5, 12, 15, tzinfo=UTC)


def test_words_and_their_aliases_mean_the_same() -> None:
    assert checked_options({"scheduled_at": "2026-05-12T17:00:00+02:00"}).at == MOMENT
    assert checked_options({"in_": timedelta(minutes=1)}).delay == 60
    assert checked_options({"retry_backoff": "linear"}).backoff == Backoff(BackoffKind.LINEAR)
    assert checked_options({"timeout": timedelta(hours=1)}).timeout == 3600


def test_none_is_not_given() -> None:
    assert checked_options(dict.fromkeys(TaskOptions.__struct_fields__)) == TaskOptions()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"priority": 11}, "priority"),
        ({"priority": -1}, "priority"),
        ({"priority": True}, "priority"),
        ({"priority": "5"}, "priority"),
        ({"priority": 2**31}, "priority"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": 1e308}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": 10**400}, "timeout"),
        ({"delay": -1}, "delay"),
        ({"delay": 100 * 366 * 86400}, "delay"),
        ({"in_": timedelta(seconds=-1)}, "in_"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 2**31}, "max_retries"),
        ({"max_retries": 1.0}, "max_retries"),
        ({"queue": ""}, "queue"),
        ({"queue": "a b"}, "queue"),
        ({"queue": "x" * 201}, "queue"),
        ({"key": ""}, "key"),
        ({"key": "k" * 256}, "key"),
        ({"key": "a\x00b"}, "key"),
        ({"key": "\ud800"}, "key"),
        ({"group_key": ""}, "group_key"),
        ({"unique_key": "k" * 256}, "unique_key"),
        ({"unique_key": "a\x00b"}, "unique_key"),
        ({"unique_key": "u", "key": "k"}, "unique_key"),
        ({"backoff": "random"}, "backoff"),
        ({"backoff": Backoff(base_seconds=5.0**60)}, "backoff.base_seconds"),
        ({"backoff": Backoff(multiplier=1e300)}, "backoff.multiplier"),
        ({"at": datetime(2026, 1, 1)}, "at"),  # noqa: DTZ001 - that is what is refused
        ({"at": "2026-01-01"}, "at"),
        ({"at": "0001-01-01T00:00:00+14:00"}, "at"),
        ({"at": "9999-12-31T23:59:59-12:00"}, "at"),
        ({"at": "2026-01-01T23:59:60Z"}, "at"),
        ({"at": "infinity"}, "at"),
        ({"at": 1e15}, "at"),
        ({"at": MOMENT, "delay": 5}, "delay"),
        ({"at": MOMENT, "scheduled_at": MOMENT}, "at"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_cannot_be_accepted_names_its_field(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        checked_options(given)
    assert caught.value.field == field
    assert field in caught.value.message


def test_choices_win_over_defaults() -> None:
    type_defaults = TaskOptions(queue="mail", priority=2)
    chosen = TaskOptions(priority=9).over(type_defaults).over(DEFAULTS)
    assert (chosen.queue, chosen.priority, chosen.timeout) == ("mail", 9, 300)


def test_a_back_off_keeps_its_times() -> None:
    backoff = Backoff(BackoffKind.LINEAR, 1, 1, 10)
    assert check_backoff(backoff) == backoff


def test_a_fingerprint_is_of_the_meaning() -> None:
    options = TaskOptions(priority=1, key="k")
    same = fingerprint("t", '{"b":1,"a":[1]}', options)
    assert same == fingerprint("t", '{"a":[1],"b":1}', TaskOptions(priority=1, key="other"))
    different = (
        fingerprint("u", '{"a":[1],"b":1}', options),
        fingerprint("t", '{"a":[1],"b":2}', options),
        fingerprint("t", '{"a":[1],"b":1}', TaskOptions(priority=2, key="k")),
    )
    assert same not in different
    grouped = TaskOptions(priority=1, key="k", group_key="g")
    assert fingerprint("t", '{"b":1,"a":[1]}', grouped) != same


def test_a_fingerprint_is_still_that_of_before() -> None:
    options = complete_options(TaskOptions(key="k"))
    assert fingerprint("t", "{}", options) == (
        "75320b08b8ed1ff065f3c1d761871e7f7e46cd95be28d0dfad288796c775eea9"
    )
