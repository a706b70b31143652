"""Frames over a stream, however it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.processes.terminals import frames


@given(st.lists(st.tuples(st.sampled_from([b"O", b"N"]), st.binary(max_size=300))), st.integers(1, 50))
def test_frames_come_out_as_they_went_in(sent: list[frames.Frame], size: int) -> None:
    stream = b"".join(frames.pack(*frame) for frame in sent)
    reader = frames.Reader()
    pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
    assert [frame for piece in pieces for frame in reader.feed(piece)] == sent


def test_bodies_say_what_was_said() -> None:
    ((kind, body),) = frames.Reader().feed(frames.pack_bytes(frames.OUTPUT, 2**40, b"abc"))
    assert (kind, frames.read_bytes(body)) == (frames.OUTPUT, (2**40, b"abc"))
    ((_, body),) = frames.Reader().feed(frames.pack_skipped(1, 2**50))
    assert frames.read_range(body) == (1, 2**50)
    ((_, body),) = frames.Reader().feed(frames.pack_taken(7))
    assert frames.read_offset(body) == 7


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"\xff"])
def test_a_body_without_sense_is_a_bad_frame(body: bytes) -> None:
    with pytest.raises(frames.BadFrame):
        frames.read_json(body)
    with pytest.raises(frames.BadFrame):
        frames.read_range(body)
    with pytest.raises(frames.BadFrame):
        frames.read_bytes(body)


def test_a_frame_that_is_too_long_is_refused_before_it_is_kept() -> None:
    with pytest.raises(frames.BadFrame):
        frames.Reader().feed(b"O\xff\xff\xff\x7f")
