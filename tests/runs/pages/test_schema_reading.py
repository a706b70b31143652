from runs.pages.schema_reading import kind_of, resolve, title_of


def test_outer_words_win_over_what_is_referred_to():
    root = {"$defs": {"x": {"type": "string", "title": "Inner", "maxLength": 5}}}
    found = resolve({"$ref": "#/$defs/x", "title": "Outer"}, root)
    assert (found["title"], found["type"], found["maxLength"]) == ("Outer", "string", 5)


def test_a_circle_of_references_ends():
    root = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert resolve({"$ref": "#/$defs/a"}, root) == {}


def test_a_reference_to_nothing_is_a_json_field():
    part = resolve({"$ref": "#/$defs/gone"}, {})
    assert kind_of("x", part, {}) == ("json", ())


def test_a_name_stands_in_for_a_missing_title():
    assert title_of("max_turns", {}) == "Max turns"
    assert title_of("x", {"title": "A title"}) == "A title"
