r"""The rule for text and numbers that cross our edges, one place.

Arguments (`find_problems`): NaN, infinities, lone surrogates, NUL and nesting deeper than 64 are refused, because the
model or the caller can mend them. Results (`clean_json`): what came from outside is kept as far as it can be stored:
NUL and lone surrogates become U+FFFD, NaN and infinities become null, other objects their text.
"""

import math
from collections.abc import Iterator, Mapping

from tools.effects import JSON
from tools.errors import ArgumentProblem

MAX_DEPTH = 64
_REPLACEMENT = "\ufffd"


def clean_text(text: str) -> str:
    """Return `text` with NUL and lone surrogates replaced by U+FFFD (PostgreSQL and UTF-8 take neither)."""
    if text.isascii():
        return text.replace("\0", _REPLACEMENT)
    return "".join(_REPLACEMENT if char == "\0" or "\ud800" <= char <= "\udfff" else char for char in text)


def clean_json(value: object, *, depth: int = 0) -> JSON:
    """Return `value` as storable JSON by the rule above; never raises for what JSON can nearly express."""
    if depth > MAX_DEPTH:
        return clean_text(repr(value)[:200])
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {clean_text(str(key)): clean_json(item, depth=depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [clean_json(item, depth=depth + 1) for item in value]
    return clean_text(str(value))


def find_problems(value: object, path: str = "", depth: int = 0) -> Iterator[ArgumentProblem]:
    """Yield what keeps `value` from being an argument, with the dotted path of each place."""
    if depth > MAX_DEPTH:
        yield ArgumentProblem(path, f"is nested deeper than {MAX_DEPTH}")
    elif isinstance(value, str):
        if clean_text(value) != value:
            yield ArgumentProblem(path, "holds NUL or a lone surrogate")
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield ArgumentProblem(path, "is not a finite number")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str) or clean_text(key) != key:
                yield ArgumentProblem(path, "has a key that is no clean text")
                continue
            yield from find_problems(item, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from find_problems(item, f"{path}.{index}" if path else str(index), depth + 1)
    elif value is not None and not isinstance(value, bool | int):
        yield ArgumentProblem(path, f"is no JSON value ({type(value).__name__})")
