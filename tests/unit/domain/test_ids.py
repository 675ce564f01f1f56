import pickle
from datetime import datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from mainspring.domain.ids import (
    EPOCH,
    PARTITIONS,
    floor_id,
    key_tail,
    make_id,
    milliseconds_of,
    partition_of,
    random_bits_needed,
)

times = st.integers(0, 2**48 - 1)
bits = st.integers(0, 2 ** random_bits_needed() - 1)
keys = st.one_of(st.none(), st.text(min_size=1, max_size=255).filter(str.isprintable))
moments = st.datetimes(datetime(1970, 1, 1), datetime(2199, 12, 31)).map(  # noqa: DTZ001
    lambda moment: moment.replace(tzinfo=EPOCH.tzinfo)
)


@given(times, bits, keys)
def test_an_id_is_a_uuid_of_version_7(milliseconds: int, random_bits: int, key: str | None) -> None:
    made = make_id(milliseconds, random_bits, key)
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert milliseconds_of(made) == milliseconds
    assert UUID(str(made)) == made == pickle.loads(pickle.dumps(made))
    assert (hash(made), made.is_safe) == (hash(UUID(str(made))), UUID(str(made)).is_safe)


@given(times, times, bits, bits, keys, keys)
def test_ids_sort_by_time(
    one: int, other: int, one_bits: int, other_bits: int, key: str | None, other_key: str | None
) -> None:
    if one != other:
        ids = make_id(one, one_bits, key), make_id(other, other_bits, other_key)
        assert (ids[0] < ids[1]) == (one < other)
        assert (str(ids[0]) < str(ids[1])) == (one < other)


@given(times, bits, bits)
def test_random_bits_make_different_ids(milliseconds: int, one: int, other: int) -> None:
    same = make_id(milliseconds, one) == make_id(milliseconds, other)
    assert same == (one == other)


@given(times, times, bits, bits, st.text(min_size=1), st.integers(1, 2**16))
def test_all_tasks_of_a_key_are_in_one_partition(
    one: int, other: int, one_bits: int, other_bits: int, key: str, count: int
) -> None:
    ids = make_id(one, one_bits, key), make_id(other, other_bits, key)
    assert partition_of(ids[0], count) == partition_of(ids[1], count) == key_tail(key) % count


@given(times, bits, keys, st.integers(1, 2**16))
def test_a_partition_is_in_range(
    milliseconds: int, random_bits: int, key: str | None, count: int
) -> None:
    assert 0 <= partition_of(make_id(milliseconds, random_bits, key), count) < count


def test_keys_spread_over_all_partitions() -> None:
    counts = [0] * PARTITIONS
    for number in range(64 * 100):
        counts[key_tail(f"key-{number}") % PARTITIONS] += 1
    assert min(counts) > 50
    assert max(counts) < 160


@given(moments, moments, bits, keys)
def test_the_floor_of_a_moment_divides_ids_by_time(
    moment: datetime, made_at: datetime, random_bits: int, key: str | None
) -> None:
    milliseconds = (made_at - EPOCH) // timedelta(milliseconds=1)
    made = make_id(milliseconds, random_bits, key)
    if made_at >= moment:
        assert made >= floor_id(moment)
    elif (moment - EPOCH) // timedelta(milliseconds=1) > milliseconds:
        assert made < floor_id(moment)
