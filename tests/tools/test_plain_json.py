"""The rule for text and numbers at our edges: refused in arguments, replaced in results."""

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from tools.plain_json import clean_json, clean_text, find_problems

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=3), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(ANYTHING)
def test_cleaned_values_are_storable_and_clean(value: object) -> None:
    cleaned = clean_json(value)
    assert list(find_problems(cleaned)) == []
    json.dumps(cleaned, allow_nan=False).encode()
    assert clean_json(cleaned) == cleaned


@given(st.text())
def test_clean_text_keeps_its_length_and_everything_storable(text: str) -> None:
    cleaned = clean_text(text)
    assert len(cleaned) == len(text)
    assert all(old == new or (new == "\ufffd" and old == "\0") for old, new in zip(text, cleaned, strict=True))


def test_replacements_are_the_documented_ones() -> None:
    assert clean_json({"a\0": [math.nan, math.inf, "\ud800", (1, 2)]}) == {"a\ufffd": [None, None, "\ufffd", [1, 2]]}


def test_problems_name_their_place() -> None:
    value = {"a": [1, {"b": math.nan}], "c": "\0", "d": {1: 2}, "e": object()}
    assert [problem.path for problem in find_problems(value)] == ["a.1.b", "c", "d", "e"]
