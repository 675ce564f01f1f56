import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.json_text import decode
from mainspring.domain.errors import InvalidValue, PayloadTooLarge


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[1,]", "not JSON"),
        ("\ufeff{}", "not JSON"),
        (b"\xff", "UTF-8"),
        ("{}".encode("utf-16"), "UTF-8"),
        (b'"\xc0\x80"', "UTF-8"),
        ('"\ud800"', "UTF-8"),
        ("NaN", "NaN"),
        ("[Infinity]", "Infinity"),
        ("-Infinity", "Infinity"),
        ("1e999", "1e999"),
        ("1e130000", "1e130000"),
        ("1e-999", "1e-999"),
        ("0.10000000000000000000001", "changed"),
        ("9" * 4301, "64 characters"),
        ("0." + "9" * 4301, "changed"),
        ('"\\u0000"', "NUL"),
        ('"\\ud800"', "surrogate"),
        ('{"\\ud800": 1}', "surrogate"),
        ("[" * 100_000, "nested too deeply"),
        ("[" * 65 + "]" * 65, "64 levels"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' twice"),
        ("[" + "1," * 10_000 + "1]", "10,000 parts"),
    ],
)
def test_traps_are_refused_with_the_name_of_the_field(text: str | bytes, part: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        decode(text, "payload")
    assert part in caught.value.message
    assert caught.value.message.startswith("payload")
    assert caught.value.field is not None
    assert caught.value.field.startswith("payload")


def test_size_is_bounded_before_it_is_read() -> None:
    with pytest.raises(PayloadTooLarge):
        decode('"' + "x" * (256 * 1024) + '"', "payload")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740993", 2**53 + 1),
        ("18446744073709551616", 2**64),
        ("-0", 0),
        ("1.5e3", 1500.0),
        ("0.1", 0.1),
        ("0.30000000000000004", 0.30000000000000004),
        ("1.0", 1.0),
        ("0.0", 0.0),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ("true", True),
        ("null", None),
    ],
)
def test_what_can_be_held_is_held_exactly(text: str, value: object) -> None:
    assert decode(text, "payload") == value
    assert type(decode(text, "payload")) is type(value)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(JSON)
def test_json_is_read_back_or_refused(value: Any) -> None:
    text = json.dumps(value)
    try:
        read = decode(text, "payload")
    except InvalidValue:
        assert "\\u0000" in text or "\\ud" in text
    else:
        assert read == value


@given(st.text() | st.binary())
def test_nothing_else_is_ever_raised(text: str | bytes) -> None:
    try:
        decode(text, "payload")
    except InvalidValue as error:
        assert error.field is not None  # noqa: PT017 - most texts are refused, some are not
