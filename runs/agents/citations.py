"""Check what a model says against the passages that it was given, and quote them. Pure, and without a model.

    sentence of the model --> up to three sentences of at most two passages that hold its words --> [n][m]
                      or none --> the sentence is dropped

Most of the words must be there, every name, and every number among the words that stand around it: "sales of 32,900
euros" is not supported by "vouchers came to 32,900 euros". A model's own citations are taken away first: it may
invent them. What this can show is that a sentence says its sources' words; not that it means the same.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from runs.documents.words import content_words, numbers, sentences

MIN_SUPPORT = 0.6  # this share of a sentence's words must stand in the sentences of its sources
MAX_SENTENCES = 3  # of the sources for one sentence of the model
MAX_SOURCES = 2
MIN_MORE_WORDS = 2  # a second or third sentence must add so many
NEAR_WORDS = 4  # to each side of a number
MIN_NEAR_SHARE = 0.5  # of these must stand in the sentence that holds the number
MIN_WORDS = 3  # a shorter sentence says nothing that could be checked
MAX_QUOTE_CHARS = 320
_CITATION = re.compile(
    r"\[\^?\d+(?:\s*[,;-]\s*\d+)*\]|\((?:source|see|cf\.?|page|passage)s?\b[^)]{0,80}\)|【[^】]{0,40}】", re.IGNORECASE
)
_MARK = re.compile(r"^\s*(?:[-*•>]+|\d+[.)]|#{1,6})\s+|\*\*|__|`", re.MULTILINE)
_NAME = re.compile(r"(?<=[\w,;:)'\"\u201d\u2019] )[A-Z][\w'-]+")


@dataclass(frozen=True, slots=True)
class Source:
    """A passage that a model was given."""

    document_id: str
    document: str
    ordinal: int
    place: str
    text: str

    @property
    def key(self) -> tuple[str, int]:
        """What tells one passage from another."""
        return self.document_id, self.ordinal


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence with the sources that hold its words."""

    text: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """What is left of a text after the check, and what was dropped."""

    claims: tuple[Claim, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of a source, ready to be compared."""

    source: Source
    words: frozenset[str]
    numbers: frozenset[str]


def check_claims(text: str, sources: Sequence[Source], *, question: str = "", is_cut: bool = False) -> Checked:
    """Return the sentences of `text` that the sources support, with those sources, and the rest.

    Sentences that only repeat the question or an earlier sentence are left out without being counted as dropped.
    is_cut: the model stopped at its token limit, so its last sentence is half and goes.
    """
    pieces = sentences(_MARK.sub("", _CITATION.sub("", text)))
    if is_cut and pieces and not re.search(r"[.!?。！？][\"'\u201d\u2019)]*$", pieces[-1]):
        pieces.pop()
    seen: list[frozenset[str]] = [frozenset(content_words(question))]
    held = [_read(source, text) for source in sources for text in sentences(f"{source.place}\n\n{source.text}")]
    claims: list[Claim] = []
    dropped: list[str] = []
    for piece in pieces:
        sentence = re.sub(r"\s+([.,;:!?])", r"\1", " ".join(piece.split()))
        words = frozenset(content_words(sentence))
        if not words or any(words <= earlier for earlier in seen):
            continue
        found = _support(sentence, words, held)
        if found:
            seen.append(words)
            claims.append(Claim(sentence, found))
        else:
            dropped.append(sentence)
    return Checked(tuple(claims), tuple(dropped))


def quote(source: Source, about: str) -> str:
    """Return the sentence of a passage that is nearest to `about`, word for word; a long one is cut at a word."""
    wanted = set(content_words(about))

    def nearness(sentence: str) -> float:
        words = set(content_words(sentence))
        return len(words & wanted) / math.sqrt(len(words) + 8)  # long sentences hold more words by chance

    best = max(sentences(source.text), key=nearness, default=source.text)
    if len(best) <= MAX_QUOTE_CHARS:
        return best
    cut = best[:MAX_QUOTE_CHARS]
    return cut.rsplit(None, 1)[0] if " " in cut else cut


def _support(sentence: str, words: frozenset[str], held: Sequence[_Sentence]) -> tuple[Source, ...]:
    """Return the source, or the two, that hold enough of the sentence; () when none do."""
    if len(words) < MIN_WORDS:
        return ()
    chosen = _choose(words, held)
    found: frozenset[str] = frozenset().union(*(item.words for item in chosen))
    if len(words & found) < MIN_SUPPORT * len(words):
        return ()
    sources = tuple(dict.fromkeys(item.source for item in chosen))
    known = [item for item in held if item.source in sources]
    all_words = frozenset().union(*(item.words for item in known))
    names = {word for name in _NAME.findall(sentence) for word in content_words(name)}
    if not names <= all_words or not all(_is_near(*number, known) for number in _numbers_with_words(sentence)):
        return ()
    return sources


def _choose(words: frozenset[str], held: Sequence[_Sentence]) -> list[_Sentence]:
    """Return up to three sentences, of at most two sources, that each add most of what is still missing."""
    chosen: list[_Sentence] = []
    missing = words
    while len(chosen) < MAX_SENTENCES and missing:
        sources = {item.source for item in chosen}
        open_to = [item for item in held if len(sources) < MAX_SOURCES or item.source in sources]
        best = max(open_to, key=lambda item: len(missing & item.words), default=None)
        if best is None or len(missing & best.words) < (MIN_MORE_WORDS if chosen else 1):
            break
        chosen.append(best)
        missing -= best.words
    return chosen


def _numbers_with_words(sentence: str) -> list[tuple[str, frozenset[str]]]:
    """Return each number of a sentence with the words around it, other numbers left out."""
    all_words = content_words(sentence)
    found: list[tuple[str, frozenset[str]]] = []
    for place, word in enumerate(all_words):
        if word[0].isdigit():
            before, after = all_words[max(0, place - NEAR_WORDS) : place], all_words[place + 1 : place + 1 + NEAR_WORDS]
            found.append((word, frozenset(near for near in before + after if not near[0].isdigit())))
    return found


def _is_near(number: str, around: frozenset[str], held: Sequence[_Sentence]) -> bool:
    """Say whether one sentence holds the number together with half of the words around it."""
    return any(number in item.numbers and len(around & item.words) >= MIN_NEAR_SHARE * len(around) for item in held)


def _read(source: Source, sentence: str) -> _Sentence:
    return _Sentence(source, frozenset(content_words(sentence)), frozenset(numbers(sentence)))
