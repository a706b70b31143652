"""The newest bytes of an endless stream, by their offset from its start. stdlib only."""

RING_BYTES = 1 << 20


class ByteRing:
    """Bytes from `start` to `end`. What is older than the last `max_bytes` may be gone."""

    def __init__(self, max_bytes: int = RING_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept = bytearray()
        self.start = 0

    @property
    def end(self) -> int:
        """The offset of the next byte."""
        return self.start + len(self._kept)

    def append(self, data: bytes) -> None:
        """Add bytes, and forget the oldest. It is cut only when twice as long: each cut moves all that is kept."""
        self._kept += data
        if len(self._kept) > 2 * self._max_bytes:
            excess = len(self._kept) - self._max_bytes
            del self._kept[:excess]
            self.start += excess

    def read(self, offset: int, most: int) -> bytes:
        """Give up to `most` bytes from an offset on. Raises: ValueError where none are kept."""
        if not self.start <= offset <= self.end:
            raise ValueError(f"offset {offset} is not within {self.start} and {self.end}")
        begin = offset - self.start
        return bytes(self._kept[begin : begin + most])
