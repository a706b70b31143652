r"""Check what a model says against the passages that it was given, and quote them. Pure, and without a model.

    sentence of the model --> its words, names and numbers --> the one or two passages that hold them --> [n]
                                                           \-> none: the sentence is dropped

A model's own citations are taken away first: it may invent them. What this can show is that the words of a sentence
stand in its source, and every number and name; not that the sentence means the same.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from runs.documents.words import content_words, is_cjk, numbers, sentences, tokens

MIN_SUPPORT = 0.6  # this share of a sentence's words must stand in its sources
MIN_SECOND_WORDS = 2  # a second source is cited when it adds so many
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
class _Words:
    all: frozenset[str]
    numbers: frozenset[str] = field(default_factory=frozenset)


def check_claims(text: str, sources: Sequence[Source], *, question: str = "", is_cut: bool = False) -> Checked:
    """Return the sentences of `text` that the sources support, with those sources, and the rest.

    Sentences that only repeat the question or an earlier sentence are left out without being counted as dropped.
    is_cut: the model stopped at its token limit, so its last sentence is half and goes.
    """
    pieces = sentences(_MARK.sub("", _CITATION.sub("", text)))
    if is_cut and pieces and not re.search(r"[.!?。！？][\"'\u201d\u2019)]*$", pieces[-1]):
        pieces.pop()
    seen: list[frozenset[str]] = [frozenset(content_words(question))]
    bags = [(source, _bag(f"{source.place}\n{source.text}")) for source in sources]
    claims: list[Claim] = []
    dropped: list[str] = []
    for piece in pieces:
        sentence = re.sub(r"\s+([.,;:!?])", r"\1", " ".join(piece.split()))
        words = frozenset(content_words(sentence))
        if not words or any(words <= earlier for earlier in seen):
            continue
        found = _support(sentence, words, bags)
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


def _support(sentence: str, words: frozenset[str], bags: Sequence[tuple[Source, _Words]]) -> tuple[Source, ...]:
    """Return the source, or the two, that hold enough of the sentence; () when none do."""
    if len(words) < MIN_WORDS:
        return ()
    needed_numbers = numbers(sentence)
    needed_names = {word for name in _NAME.findall(sentence) for word in content_words(name)}

    def holds(bag: _Words) -> bool:
        share = len(words & bag.all) / len(words)
        return share >= MIN_SUPPORT and needed_numbers <= bag.numbers and needed_names <= bag.all

    ordered = sorted(bags, key=lambda item: -len((words | needed_numbers) & (item[1].all | item[1].numbers)))
    for first, bag in ordered:
        if holds(bag):
            missing = words - bag.all
            second = max(ordered, key=lambda item: len(missing & item[1].all), default=None)
            if second is not None and len(missing & second[1].all) >= MIN_SECOND_WORDS:
                return first, second[0]
            return (first,)
    for first, bag in ordered[:1]:
        for other, more in ordered[1:]:
            if holds(_Words(bag.all | more.all, bag.numbers | more.numbers)):
                return first, other
    return ()


def _bag(text: str) -> _Words:
    words = frozenset(content_words(text))
    if any(is_cjk(token) for token in tokens(text)):
        words |= frozenset(token for token in tokens(text) if is_cjk(token))
    return _Words(words, frozenset(numbers(text)))
