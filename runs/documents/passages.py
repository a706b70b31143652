"""Cut the blocks of a document into passages: small enough to cite, large enough to understand. Pure.

A passage has 150 to 220 words, ends at a paragraph's border where it can, and knows its place. A new place (a page, a
chapter) begins a new passage, except that pieces too small to stand alone are joined with the next.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from runs.documents.words import count_words, sentences

MIN_WORDS = 30  # less than this is joined with the next place
GOOD_WORDS = 150
MAX_WORDS = 220
MAX_CHARS = 2400  # for text without spaces
PLACE_CHARS = 200
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph as a reader found it. place: "page 3", a heading; or first_line and last_line for plain text."""

    text: str
    place: str = ""
    first_line: int = 0
    last_line: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage before it is stored."""

    place: str
    text: str


def make_passages(blocks: Iterable[Block]) -> list[Piece]:
    """Return the passages of a document, in its order. White space inside lines is made single."""
    found: list[Piece] = []
    held: list[Block] = []
    words = 0
    for block in _small_blocks(blocks):
        size = count_words(block.text)
        moved = bool(held) and block.place != held[-1].place
        is_full = words >= GOOD_WORDS or words + size > MAX_WORDS or _chars(held) + len(block.text) > MAX_CHARS
        if held and (is_full or (moved and words >= MIN_WORDS)):
            found.append(_join(held))
            held, words = [], 0
        held.append(block)
        words += size
    if held:
        found.append(_join(held))
    return found


def _small_blocks(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield cleaned blocks of at most MAX_WORDS; a longer one is cut at sentences, then anywhere."""
    for block in blocks:
        text = re.sub(r"[^\S\n]+", " ", _UNSTORABLE.sub("\ufffd", block.text)).strip()
        for part in _cut(text):
            yield Block(part, block.place, block.first_line, block.last_line)


def _cut(text: str) -> Iterator[str]:
    if not text:
        return
    if count_words(text) <= MAX_WORDS and len(text) <= MAX_CHARS:
        yield text
        return
    held = ""
    for sentence in sentences(text):
        for piece in _cut_hard(sentence):
            joined = f"{held} {piece}" if held else piece
            if held and (count_words(joined) > MAX_WORDS or len(joined) > MAX_CHARS):
                yield held
                joined = piece
            held = joined
    if held:
        yield held


def _cut_hard(sentence: str) -> Iterator[str]:
    if count_words(sentence) <= MAX_WORDS and len(sentence) <= MAX_CHARS:
        yield sentence
        return
    words = [word[i : i + 200] for word in sentence.split() for i in range(0, len(word), 200)]
    held: list[str] = []
    for word in words:
        if held and (len(held) >= GOOD_WORDS or sum(map(len, held)) + len(held) + len(word) > MAX_CHARS):
            yield " ".join(held)
            held = []
        held.append(word)
    if held:
        yield " ".join(held)


def _chars(blocks: list[Block]) -> int:
    return sum(len(block.text) for block in blocks)


def _join(blocks: list[Block]) -> Piece:
    first, last = blocks[0], blocks[-1]
    if first.first_line:
        lines = f"{first.first_line}-{last.last_line}" if last.last_line > first.first_line else f"{first.first_line}"
        place = f"lines {lines}" if "-" in lines else f"line {lines}"
    elif first.place == last.place or not last.place:
        place = first.place
    else:
        place = f"{first.place} / {last.place}" if first.place else last.place
    return Piece(_UNSTORABLE.sub("\ufffd", place)[:PLACE_CHARS], "\n\n".join(block.text for block in blocks))
