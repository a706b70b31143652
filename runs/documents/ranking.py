"""Order passages by how well they fit a question: BM25 over the candidates that the database found. Pure.

PostgreSQL finds every passage with one of the words, but its rank does not know that "outage" says more than
"happened"; the share of candidates that hold a word does. A word in the label (file name, place) counts like three
in the text.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from runs.documents.words import content_words

K1 = 1.2
B = 0.6
LABEL_WEIGHT = 3
OTHERS = 20  # as if so many more passages held none of the words: in a small set a word in all of it still counts


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage to be ordered. label: what is known about it beside its text."""

    label: str
    text: str


def rank(question: str, candidates: Sequence[Candidate]) -> list[tuple[int, float]]:
    """Return (index of the candidate, score), best first; equals keep their order; scores of 0 are left out.

    A passage that holds more of the question's different words is preferred to one that repeats one of them.
    """
    wanted = list(dict.fromkeys(content_words(question)))
    if not wanted or not candidates:
        return []
    bags = [_bag(candidate) for candidate in candidates]
    lengths = [sum(bag.values()) for bag in bags]
    average = sum(lengths) / len(lengths) or 1.0
    weights = {word: _rarity(sum(word in bag for bag in bags), len(bags) + OTHERS) for word in wanted}
    total = sum(weights.values()) or 1.0
    scored: list[tuple[int, float]] = []
    for index, bag in enumerate(bags):
        score = covered = 0.0
        for word in wanted:
            if count := bag[word]:
                score += weights[word] * count * (K1 + 1) / (count + K1 * (1 - B + B * lengths[index] / average))
                covered += weights[word]
        if score > 0:
            scored.append((index, score * (0.5 + covered / total)))
    return sorted(scored, key=lambda item: -item[1])


def _bag(candidate: Candidate) -> Counter[str]:
    bag = Counter(content_words(candidate.text))
    for word in content_words(candidate.label):
        bag[word] += LABEL_WEIGHT
    return bag


def _rarity(holders: int, count: int) -> float:
    return math.log(1 + (count - holders + 0.5) / (holders + 0.5))
