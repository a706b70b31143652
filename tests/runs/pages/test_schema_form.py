from typing import Any

import pytest
from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st

from runs.pages.schema_form import FormField, fields_of, fields_of_stored, fill, is_single

JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
WORDS = st.sampled_from(
    ["type", "properties", "items", "enum", "const", "anyOf", "allOf", "$ref", "$defs", "required", "default", "title",
     "description", "minimum", "maxLength", "additionalProperties"]
)  # fmt: skip
VALUES = JSON | st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null", "#/$defs/a", "#"])
SCHEMAS: Any = st.recursive(
    st.dictionaries(WORDS, VALUES, max_size=5),
    lambda inner: st.dictionaries(WORDS, inner | VALUES | st.lists(inner, max_size=2), max_size=5),
    max_leaves=10,
)


def one(schema: dict[str, Any]) -> FormField:
    return fields_of(schema, prefix="")[0]


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "lines"),
        ({"type": "string", "maxLength": 50}, "text"),
        ({"type": "string", "pattern": "^[A-Z]{3}$"}, "text"),
        ({"type": "integer"}, "integer"),
        ({"type": "number"}, "number"),
        ({"type": "boolean"}, "boolean"),
        ({"enum": ["a", "b"]}, "choice"),
        ({"const": "a"}, "choice"),
        ({"type": "array", "items": {"type": "string"}}, "list"),
        ({"type": "array", "items": {"enum": ["a"]}}, "choices"),
        ({"type": "array", "items": {"type": "object"}}, "json"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "json"),
        ({"type": ["string", "null"]}, "json"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "boolean"}}}, "boolean"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/x"}}}, "json"),
        ({}, "json"),
    ],
)
def test_each_kind_of_schema_has_its_field(schema, kind):
    assert one(schema).kind == kind


def test_a_list_of_documents_is_picked_also_where_all_is_another_choice():
    part = {"anyOf": [{"const": "all", "type": "string"}, {"$ref": "#/$defs/ids"}], "default": "all"}
    schema = {
        "type": "object",
        "properties": {"documents": part},
        "$defs": {"ids": {"type": "array", "items": {"type": "string"}}},
    }
    assert (one(schema).kind, one(schema).value) == ("documents", [])


def test_labels_limits_defaults_and_help_come_from_the_schema():
    part = {"type": "integer", "minimum": 1, "maximum": 9, "default": 3, "title": "How many", "description": "Few."}
    field = one({"type": "object", "properties": {"n": part}})
    assert (field.label, field.help, field.value, field.is_required) == ("How many", "Few.", "3", False)
    assert field.limits == {"min": 1, "max": 9}


def test_an_optional_field_left_empty_is_left_out():
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": []}
    filled = fill(fields_of(schema, prefix="x-"), QueryDict("x-a=&x-b="))
    assert filled.is_good
    assert filled.values == {}


def test_choices_keep_their_type():
    field = fields_of({"enum": [1, "1", None, True]}, prefix="")
    assert fill(field, QueryDict("value=1")).values == {"value": 1}
    assert fill(field, QueryDict("value=%221%22")).values == {"value": "1"}
    assert not fill(field, QueryDict("value=2")).is_good


def test_choices_that_are_ticked_by_default_are_shown_so_and_can_all_be_unticked():
    part = {"type": "array", "items": {"enum": ["a", "b"]}, "default": ["a"]}
    fields = fields_of({"type": "object", "properties": {"tools": part}}, prefix="")
    assert fields[0].value == ['"a"']
    assert fill(fields, QueryDict("")).values == {"tools": []}
    assert fill(fields, QueryDict("tools=%22b%22")).values == {"tools": ["b"]}


def test_what_was_typed_is_kept_next_to_what_is_wrong():
    filled = fill(fields_of({"type": "integer"}, prefix=""), QueryDict("value=seven"))
    assert (filled.fields[0].value, filled.fields[0].error) == ("seven", "Write a whole number.")


def test_an_error_of_an_unknown_field_is_shown_at_the_first_one():
    filled = fill(fields_of({"type": "integer"}, prefix=""), QueryDict("value=7")).with_errors({"other": "no good"})
    assert filled.fields[0].error == "no good"


def test_only_what_is_no_object_is_a_single_value():
    assert is_single({"type": "string"})
    assert is_single({"type": "object"})
    assert not is_single({"type": "object", "properties": {"value": {"type": "string"}}})
    assert not is_single({"type": "object", "properties": {"a": {}, "b": {}}})
    assert not is_single({"type": "object", "properties": {"a": {"type": "boolean"}}})
    assert not is_single({"type": "object", "additionalProperties": False})
    assert is_single({"properties": 1})
    assert is_single({"type": "object", "properties": 1, "required": 7})


@given(SCHEMAS, st.text(max_size=20))
def test_any_schema_gives_a_form_and_any_post_an_answer(schema, typed):
    fields = fields_of(schema, prefix="f-")
    posted = QueryDict(mutable=True)
    for field in fields:
        posted[field.key] = typed
    filled = fill(fields, posted)
    assert len(filled.fields) == len(fields)
    assert isinstance(is_single(schema), bool)


def test_a_stored_question_asks_first_for_what_it_requires() -> None:
    """JSONB has sorted its properties by the length of their names."""
    parts = {"why": {"type": "string"}, "size": {"type": "integer"}, "colour": {"enum": ["red", "blue"]}}
    asked: Any = {"type": "object", "properties": parts, "required": ["colour", "size"]}
    assert [f.name for f in fields_of_stored(asked, prefix="")] == ["colour", "size", "why"]
    through_a_reference: Any = {"$ref": "#/$defs/a", "$defs": {"a": asked}}
    assert [f.name for f in fields_of_stored(through_a_reference, prefix="")] == ["colour", "size", "why"]


@given(schema=SCHEMAS)
def test_a_stored_schema_of_any_shape_gives_the_same_fields(schema: dict[str, Any]) -> None:
    stored, plain = fields_of_stored(schema, prefix=""), fields_of(schema, prefix="")
    assert sorted(f.name for f in stored) == sorted(f.name for f in plain)
