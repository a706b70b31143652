"""Untrusted text made safe for a terminal: a model, a file name or a web page must not drive the screen."""

import re

# An escape sequence as a whole (CSI, OSC with its end, two-character ones), so that its letters do not stay behind.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# What is left of C0 and C1 (tab and newline stay), line breaks of other alphabets, and marks that reorder a line.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def safe(text: str) -> str:
    """Take escape sequences, control characters and bidirectional overrides out; tabs and newlines stay."""
    return _SURROGATES.sub("\ufffd", _CONTROLS.sub("", _SEQUENCES.sub("", text)))


def safe_line(text: str, limit: int = 200) -> str:
    """Do `safe` and keep it on one line of at most `limit` characters."""
    line = " ".join(safe(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


class SafeStream:
    """`safe` for text that comes in pieces: a sequence cut by a piece's end is held back until its rest is there."""

    def __init__(self, hold_characters: int = 4096) -> None:
        self._held = ""
        self._hold_characters = hold_characters

    def feed(self, piece: str) -> str:
        """Return what can be shown now."""
        text = self._held + piece
        start = _unfinished(text)
        if start is None or len(text) - start > self._hold_characters:
            self._held = ""
            return safe(text)
        self._held = text[start:]
        return safe(text[:start])

    def finish(self) -> str:
        """Return the rest, once no more comes."""
        text, self._held = self._held, ""
        return safe(text)


_UNFINISHED = re.compile(
    r"(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*\x1b?|\x1b[ -/]*)\Z"
)


def _unfinished(text: str) -> int | None:
    found = _UNFINISHED.search(text)
    return None if found is None else found.start()
