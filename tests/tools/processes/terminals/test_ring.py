"""The newest bytes by their offset."""

import pytest

from tools.processes.terminals.ring import ByteRing


def test_bytes_are_found_by_their_offset_from_the_start() -> None:
    ring = ByteRing(10)
    ring.append(b"hello ")
    ring.append(b"world")
    assert (ring.start, ring.end) == (0, 11)
    assert (ring.read(6, 100), ring.read(0, 5), ring.read(11, 5)) == (b"world", b"hello", b"")


def test_the_oldest_are_forgotten_and_offsets_stay() -> None:
    ring = ByteRing(10)
    for number in range(100):
        ring.append(b"%02d" % number)
    assert ring.end == 200
    assert 10 <= ring.end - ring.start <= 20
    assert ring.read(198, 2) == b"99"
    for offset in (ring.start - 1, 201):
        with pytest.raises(ValueError, match="offset"):
            ring.read(offset, 1)
