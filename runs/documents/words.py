"""The words of a text as search and citation checks compare them. Pure.

Latin words are folded and cut to a light stem, so that "closing", "closed" and "close" are one word. A run of
Chinese, Japanese or Korean letters gives its overlapping pairs, because it has no spaces to cut at.
"""

import re
from collections.abc import Iterator

# Hiragana and katakana, CJK with extension A, Hangul, compatibility forms, extensions B and later.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_CJK}]+|\d+(?:[.,]\d+)*|[^\W_{_CJK}]+(?:['\u2019][a-z]+)?", re.IGNORECASE)
_IS_CJK = re.compile(rf"[{_CJK}]")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]\u201d\u2019]*\s+|(?<=[。！？；])[」』”’）]*|\n{2,}")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|no|nr|mr|mrs|ms|dr|st|fig|approx|[a-z])\.$", re.IGNORECASE)

STOP_WORDS = frozenset(
    """a about above after again all also am an and any are as at be because been before being below between both but
    by can could did do does doing down during each few for from further had has have having he her here hers him his
    how i if in into is it its itself just may me might more most must my no nor not now of off on once only or other
    our out over own please same shall she should so some such tell than that the their them then there these they
    this those through to too under until up us very was we were what when where which while who whom why will with
    would you your""".split()
)
CJK_STOP_PAIRS = frozenset("什么 怎么 怎样 为什 哪些 哪个 多少 是否 如何 一个 我们 你们 他们 这个 那个".split())


def is_cjk(token: str) -> bool:
    """Say whether a token is written without spaces."""
    return bool(_IS_CJK.match(token))


def tokens(text: str) -> Iterator[str]:
    """Yield the folded words of a text in order; CJK as pairs (a lone letter as itself), numbers without commas."""
    for match in _TOKEN.finditer(text):
        token = match.group().casefold()
        if is_cjk(token):
            yield from pairs(token)
        elif token[0].isdigit():
            yield token.replace(",", "")
        else:
            yield re.sub(r"['\u2019].*$", "", token) or token


def pairs(run: str) -> Iterator[str]:
    """Yield the overlapping pairs of a run of CJK letters."""
    if len(run) == 1:
        yield run
    for index in range(len(run) - 1):
        yield run[index : index + 2]


def cjk_pairs(text: str) -> list[str]:
    """Return only the CJK pairs of a text: what a database that cannot cut Chinese is given to index."""
    return [token for token in tokens(text) if is_cjk(token)]


def stem(word: str) -> str:
    """Cut a Latin word to a light stem; words of other scripts and numbers stay as they are."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


def content_words(text: str) -> list[str]:
    """Return the stems that carry meaning, in order, with repeats."""
    return [stem(token) for token in tokens(text) if token not in STOP_WORDS and token not in CJK_STOP_PAIRS]


def numbers(text: str) -> set[str]:
    """Return the numbers of a text, without commas: a claim may hold none that its source does not hold."""
    return {token.rstrip(".") for token in tokens(text) if token[0].isdigit()}


def sentences(text: str) -> list[str]:
    """Cut a text into sentences; each is an exact piece of it, without white space around."""
    found: list[str] = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        piece = text[start : match.start()]
        if _ABBREVIATION.search(piece):
            continue
        found.append(text[start : match.end()].strip())
        start = match.end()
    found.append(text[start:].strip())
    return [piece for piece in found if piece]


def count_words(text: str) -> int:
    """Count words as people do; two CJK letters count as one."""
    cjk = len(_IS_CJK.findall(text))
    return cjk // 2 + len(re.findall(rf"[^\s{_CJK}]+", text))
