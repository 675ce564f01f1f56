"""Frames arrive whole, in order and however the stream is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.worker.channel import FrameReader, encode_frame
from mainspring.worker.messages import FRAME_BYTES_MAX, Progressed


@given(
    batches=st.lists(st.lists(st.binary(max_size=50), max_size=5), max_size=8),
    cuts=st.lists(st.integers(min_value=1, max_value=40)),
)
def test_any_cut_of_the_stream_gives_the_same_frames(
    batches: list[list[bytes]], cuts: list[int]
) -> None:
    stream = b"".join(encode_frame(batch) for batch in batches)
    reader = FrameReader()
    bodies: list[bytes] = []
    for cut in [*cuts, len(stream) + 1]:
        bodies += reader.feed(stream[:cut])
        stream = stream[cut:]
    assert bodies == [encode_frame(batch)[4:] for batch in batches]


def test_a_frame_comes_byte_by_byte() -> None:
    reader = FrameReader()
    frame = encode_frame([Progressed(7, '"half"')])
    pieces = [list(reader.feed(frame[index : index + 1])) for index in range(len(frame))]
    assert pieces[:-1] == [[]] * (len(frame) - 1)
    assert pieces[-1] == [frame[4:]]


def test_an_absurd_length_is_noticed() -> None:
    with pytest.raises(ValueError, match="corrupt"):
        list(FrameReader().feed((FRAME_BYTES_MAX + 1).to_bytes(4, "big")))
