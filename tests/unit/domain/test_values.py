import json
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.domain.errors import InvalidValue, PayloadTooLarge
from mainspring.domain.values import (
    DEPTH_MAX,
    ERROR_BYTES_MAX,
    INSTANT_MAX,
    INSTANT_MIN,
    NODES_MAX,
    check_instant,
    check_json,
    check_key,
    check_name,
    check_priority,
    check_seconds,
    check_whole,
    clip_text,
    hide_secrets,
    is_plain_json,
    parse_instant,
    shown,
)

any_text = st.text(st.characters(exclude_categories=()))
good_text = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
good_numbers = st.one_of(
    st.integers(-(10**64) + 1, 10**64 - 1), st.floats(allow_nan=False, allow_infinity=False)
)


def json_values(text: st.SearchStrategy[str], leaves: st.SearchStrategy[Any]) -> Any:
    return st.recursive(
        st.one_of(st.none(), st.booleans(), text, leaves),
        lambda children: st.one_of(
            st.lists(children, max_size=4), st.dictionaries(text, children, max_size=4)
        ),
        max_leaves=20,
    )


@given(json_values(good_text, good_numbers))
def test_what_is_accepted_comes_back_unchanged(value: Any) -> None:
    check_json(value, "payload")
    encoded = json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    decoded = json.loads(encoded)
    assert decoded == value
    assert b"\\u0000" not in encoded


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


TRAPS: list[tuple[Any, str]] = [
    ("a\x00b", "payload.x"),
    ("\ud800", "payload.x"),
    ("\udfff tail", "payload.x"),
    ({"k": {"deep": ["ok", "\x00"]}}, "payload.x.k.deep[1]"),
    ({"bad\x00key": 1}, "payload.x"),
    ({"\ud800": 1}, "payload.x"),
    ({1: 1}, "payload.x"),
    ({None: 1}, "payload.x"),
    ({True: 1}, "payload.x"),
    (math.nan, "payload.x"),
    (math.inf, "payload.x"),
    (-math.inf, "payload.x"),
    (float("1e999"), "payload.x"),
    ([1, [2, math.nan]], "payload.x[1][1]"),
    (10**64, "payload.x"),
    (-(10**64), "payload.x"),
    (10**4301, "payload.x"),
    (1j, "payload.x"),
    (b"bytes", "payload.x"),
    ({1, 2}, "payload.x"),
    (Ellipsis, "payload.x"),
    (datetime(2026, 1, 1, tzinfo=UTC), "payload.x"),
]


@pytest.mark.parametrize(("trap", "field"), TRAPS, ids=shown)
def test_every_trap_is_refused_with_the_name_of_its_field(trap: Any, field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        check_json({"x": trap}, "payload")
    assert caught.value.field == field
    assert field in str(caught.value)
    str(caught.value).encode()
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_nesting_is_bounded_and_no_depth_breaks_it() -> None:
    check_json(nested(DEPTH_MAX), "payload")
    for depth in (DEPTH_MAX + 1, 1000, 100_000):
        with pytest.raises(InvalidValue, match=f"payload is nested deeper than {DEPTH_MAX}"):
            check_json(nested(depth), "payload")


def test_the_number_of_parts_is_bounded() -> None:
    check_json([0] * (NODES_MAX - 1), "payload")
    with pytest.raises(PayloadTooLarge, match="payload has more than 10,000 parts"):
        check_json([0] * NODES_MAX, "payload")


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(InvalidValue, match="payload"):
        check_json(value, "payload")


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    any_text,
    st.binary(),
    st.builds(object),
    st.builds(Unspeakable),
    st.lists(st.integers(), max_size=3),
    st.builds(lambda: 10**5000),
)


def refusal(check: Callable[[], object]) -> InvalidValue | None:
    try:
        check()
    except InvalidValue as error:
        return error
    return None


@given(json_values(any_text, anything))
def test_what_is_beyond_doubt_would_be_accepted(value: Any) -> None:
    if is_plain_json(value):
        check_json(value, "payload")


@given(json_values(good_text, good_numbers))
def test_json_of_ordinary_depth_is_beyond_doubt(value: Any) -> None:
    assert is_plain_json(value)


@pytest.mark.parametrize(("trap", "field"), TRAPS, ids=shown)
def test_no_trap_is_beyond_doubt(trap: Any, field: str) -> None:
    del field
    assert not is_plain_json({"x": trap})


def test_what_is_deeper_or_larger_than_allowed_is_not_beyond_doubt() -> None:
    assert is_plain_json([0] * (NODES_MAX - 1))
    assert not is_plain_json([0] * NODES_MAX)
    assert not is_plain_json(nested(DEPTH_MAX + 1))


@given(json_values(any_text, anything))
def test_any_value_is_accepted_or_refused_by_name(value: Any) -> None:
    error = refusal(lambda: check_json(value, "payload"))
    if error is None:
        json.dumps(value, allow_nan=False).encode()
    else:
        assert error.field is not None
        assert error.field.startswith("payload")
        str(error).encode()


CHECKS: list[Callable[[Any, str], object]] = [
    check_name,
    check_key,
    check_priority,
    check_instant,
    lambda value, field: check_seconds(value, field, 60.0),
    lambda value, field: check_whole(value, field, 0, 100),
]


@pytest.mark.parametrize("check", CHECKS)
@given(value=anything)
def test_every_check_accepts_or_names_the_field_in_one_line(
    check: Callable[[Any, str], object], value: Any
) -> None:
    error = refusal(lambda: check(value, "the_field"))
    if error is None:
        assert check(value, "the_field") == value
    else:
        assert error.field == "the_field"
        assert str(error).startswith("the_field is ")
        assert str(error).isprintable()
        assert len(str(error)) < 300


@pytest.mark.parametrize(
    "name", ["send_email", "a", "0", "mail.send", "a:b/c-d", "_private", "x" * 200]
)
def test_names_that_are_accepted(name: str) -> None:
    assert check_name(name, "task_type") == name


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "-a", ".a", "/a", "a\n", "\na", "a\x00", "ä", "x" * 201, "\u0663", "a\u202e",
     "'; DROP TABLE", None, 1, b"a", "\ud800"],
)  # fmt: skip
def test_names_that_are_refused(name: object) -> None:
    with pytest.raises(InvalidValue, match="task_type"):
        check_name(name, "task_type")


@pytest.mark.parametrize("key", ["a", "order 7", "Zoë", "cafe\u0301", "x" * 255, "\U0001f600"])
def test_keys_that_are_accepted(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize(
    "key", ["", "x" * 256, "x" * 16_384, "a\x00", "a\n", "\u202e", "\ud800", 7]
)
def test_keys_that_are_refused(key: object) -> None:
    with pytest.raises(InvalidValue, match="key"):
        check_key(key)


@pytest.mark.parametrize("value", [-1, 11, -(2**31), 2**31, 2**64, 1.0, "5", True, None])
def test_priorities_that_are_refused(value: object) -> None:
    with pytest.raises(InvalidValue, match="priority"):
        check_priority(value)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, 1e308, 10**400, "1", True, None])
def test_seconds_that_are_refused(value: object) -> None:
    with pytest.raises(InvalidValue, match="timeout"):
        check_seconds(value, "timeout")


@given(st.datetimes(timezones=st.timezones()))
def test_an_instant_is_kept_in_utc(value: datetime) -> None:
    try:
        instant = check_instant(value, "at")
    except InvalidValue:
        assert value.year <= 1970 or value.year >= 2199
    else:
        offset = value.utcoffset() or timedelta()
        assert instant.replace(tzinfo=None) == value.replace(tzinfo=None) - offset
        assert instant.utcoffset() == timedelta()
        assert INSTANT_MIN <= instant < INSTANT_MAX


@pytest.mark.parametrize(
    "value",
    [
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-12))),
        datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(2200, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1),  # noqa: DTZ001
        "2026-05-12T15:00:00Z",
        1_700_000_000,
        None,
    ],
)
def test_instants_that_are_refused(value: object) -> None:
    with pytest.raises(InvalidValue, match=r"^at is "):
        check_instant(value, "at")


@pytest.mark.parametrize(
    "text",
    ["", "now", "infinity", "2026-05-12", "2026-05-12T15:00:00", "2026-02-29T00:00:00Z",
     "2026-05-12T23:59:60Z", "2026-05-12T15:00:00+99:99", "0001-01-01T00:00:00+14:00",
     "9999-12-31T23:59:59-12:00", "10000-01-01T00:00:00Z", "1700000000", "1e15", "\x00", "٢٠٢٦"],
)  # fmt: skip
def test_texts_that_are_no_instant(text: str) -> None:
    with pytest.raises(InvalidValue, match="at is "):
        parse_instant(text, "at")


def test_an_instant_with_an_offset_is_read() -> None:
    moment = datetime(2026, 5, 12, 15, tzinfo=UTC)
    for text in ("2026-05-12T15:00:00Z", "2026-05-12T17:00:00+02:00", "2026-05-12 15:00+00:00"):
        assert parse_instant(text, "at") == moment


@given(any_text, st.integers(32, 300))
def test_clipped_text_can_always_be_stored(text: str, bytes_max: int) -> None:
    clipped = clip_text(text, bytes_max)
    assert "\x00" not in clipped
    assert len(clipped.encode()) <= bytes_max


@given(good_text)
def test_text_that_fits_is_not_changed(text: str) -> None:
    assert clip_text(text) == text


def test_the_end_of_a_long_error_is_kept() -> None:
    clipped = clip_text("begin " + "x" * 100_000 + " end")
    assert clipped.startswith("begin ")
    assert clipped.endswith(" end")
    assert len(clipped) <= ERROR_BYTES_MAX


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("at postgresql://bob:hunter2@db/x?a=b", "at postgresql://***@db/x?a=b"),
        ("redis://:p@ss:word@host:1/0 is down", "redis://***@host:1/0 is down"),
        ("host=db password=hunter2 user=bob", "host=db password=*** user=bob"),
        ("PASSWORD='two words', more", "PASSWORD=***, more"),
        ("http://host:8080/path?mail=a@b", "http://host:8080/path?mail=a@b"),
        ("nothing secret", "nothing secret"),
    ],
)
def test_accounts_and_passwords_are_hidden(text: str, hidden: str) -> None:
    assert hide_secrets(text) == hidden


@given(anything)
def test_shown_never_fails(value: object) -> None:
    text = shown(value)
    assert text.isascii()
    assert text.isprintable()
    assert len(text) <= 60
