"""What a terminal prints, as asciicast v2: a header, then a line for each piece of output and each size. stdlib only.

    {"version": 2, "width": 80, "height": 24, "timestamp": 1754000000}
    [seconds, "o", text]    [seconds, "r", "COLSxROWS"]    [seconds, "m", why it ends here]

The ward writes it: nobody else sees all of a terminal, whoever owns it and whoever looks. What is typed is not in it
unless the terminal shows it. It is bounded, and its last line says when it was cut.
"""

import codecs
import contextlib
import json
import os
import time

MOST_BYTES = 32 << 20
ONLY_US = 0o600


class Recording:
    """One file that grows; without a path nothing is written. A full disk ends it, and never the terminal."""

    def __init__(self, path: str | None, *, rows: int, cols: int, most_bytes: int = MOST_BYTES) -> None:
        """`problem` says why the file cannot be made: a reason not to begin, for people are told of a recording."""
        self._fd, self.problem = -1, ""
        self._left = most_bytes
        self._began = time.monotonic()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a read may end within a character
        if path is not None:
            try:
                self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, ONLY_US)
            except OSError as error:
                self.problem = f"It cannot be recorded: {error.strerror}."
                return
            self._write({"version": 2, "width": cols, "height": rows, "timestamp": int(time.time())})

    def output(self, data: bytes) -> None:
        """Add what the program has written."""
        if self._fd >= 0 and (text := self._decoder.decode(data)):
            self._add("o", text)

    def resize(self, *, rows: int, cols: int) -> None:
        """Add that the terminal has another size from here on."""
        if self._fd >= 0:
            self._add("r", f"{cols}x{rows}")

    def _add(self, kind: str, text: str) -> None:
        seconds = round(time.monotonic() - self._began, 6)
        if self._write([seconds, kind, text]):
            return
        self._left += 1024  # for this last one
        said = "The recording ends here: it has reached its bound. The terminal went on."
        self._write([seconds, "m", said])
        self._close()

    def _write(self, line: object) -> bool:
        """Write a line. False: it does not fit any more."""
        data = json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        if len(data) > self._left:
            return False
        self._left -= len(data)
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError:
            self._close()
        return True

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._fd)
        self._fd = -1
