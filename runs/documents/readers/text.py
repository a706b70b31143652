"""Read plain text and Markdown."""

import codecs
import re
from collections.abc import Iterator

from runs.documents.failures import Unreadable
from runs.documents.passages import Block

_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def decode(data: bytes) -> str:
    """Return the text of a file: by its byte order mark, else UTF-8, else GB 18030, else Windows-1252.

    Raises: Unreadable for binary content.
    """
    for bom, encoding in BOMS:
        if data.startswith(bom):
            return _checked(_decode(data, encoding))
    if b"\x00" in data:
        raise Unreadable("is no text file (it holds NUL bytes)")
    for encoding in ("utf-8", "gb18030", "cp1252"):
        try:
            return _checked(data.decode(encoding))
        except UnicodeDecodeError:
            continue
    raise Unreadable("is no text file (no known encoding fits)")


def _decode(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        raise Unreadable(f"is damaged: it is marked as {encoding} and is not") from None


def _checked(text: str) -> str:
    if len(_CONTROL.findall(text)) > len(text) // 50 + 1:
        raise Unreadable("is no text file (it holds control characters)")
    return text


def read_text(data: bytes) -> Iterator[Block]:
    """Yield the paragraphs of a plain text with their lines."""
    held: list[str] = []
    first = 0
    for number, line in enumerate(decode(data).splitlines(), start=1):
        if line.strip():
            first = first or number
            held.append(line)
        elif held:
            yield Block("\n".join(held), first_line=first, last_line=number - 1)
            held, first = [], 0
    if held:
        yield Block("\n".join(held), first_line=first, last_line=first + len(held) - 1)


def read_markdown(data: bytes) -> Iterator[Block]:
    """Yield the paragraphs of a Markdown file with the heading that they stand under."""
    held: list[str] = []
    place = ""
    in_fence = False
    for line in decode(data).splitlines():
        if _FENCE.match(line):
            in_fence = not in_fence
            continue
        heading = None if in_fence else _HEADING.match(line)
        if heading or (not line.strip() and not in_fence):
            if held:
                yield Block("\n".join(held), place)
            held = []
            place = _plain(heading[2]) if heading else place
        else:
            held.append(line if in_fence else _plain(line))
    if held:
        yield Block("\n".join(held), place)


def _plain(line: str) -> str:
    """Take the marks of emphasis away; they would stand in quotations."""
    return re.sub(r"\*\*|__|`", "", line)
