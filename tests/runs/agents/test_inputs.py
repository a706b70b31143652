import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from runs.agents.inputs import parse_input
from runs.errors import InvalidInput

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


class Anything(BaseModel):
    a: str
    b: int = 0


@given(st.one_of(JSON, st.fixed_dictionaries({"a": JSON}, optional={"b": JSON})))
def test_whatever_comes_is_either_refused_with_a_field_or_taken_as_it_is(raw: object) -> None:
    try:
        taken = parse_input(Anything, raw)
    except InvalidInput as error:
        refused = error.field
    else:
        assert isinstance(raw, dict)
        assert taken.model_dump(exclude_unset=True) == raw
        assert type(taken.model_dump()["b"]) is int
        return
    assert refused.split(".")[0] == "input"


def test_a_model_that_allows_more_fields_does_not_get_them() -> None:
    class Loose(BaseModel, extra="allow"):
        a: str = ""

    with pytest.raises(InvalidInput, match=r"."):
        parse_input(Loose, {"b": 1})
