"""Reading a JSON schema for people: what kind of field a part is, its choices, and its name in plain words.

Total: a schema may come from anybody's agent, so whatever is not understood is a JSON field and nothing raises.
"""

import json
from typing import Any

from django.utils.translation import gettext as _

type Schema = dict[str, Any]
type Choices = tuple[tuple[str, str], ...]

MAX_HOPS = 20


def resolve(part: Any, root: Schema) -> Schema:
    """Follow `$ref`, a single `allOf`, and "or null" to the part that says what it is; outer words win."""
    words: Schema = {}
    for _hop in range(MAX_HOPS):
        if not isinstance(part, dict):
            return words
        words = {**part, **words}
        reference = part.get("$ref")
        options = part.get("anyOf") or part.get("oneOf") or part.get("allOf")
        if isinstance(reference, str):
            words.pop("$ref", None)
            part = _look_up(reference, root)
        elif isinstance(options, list):
            real = [o for o in options if not (isinstance(o, dict) and o.get("type") == "null")]
            if len(real) != 1:
                return words
            for word in ("anyOf", "oneOf", "allOf"):
                words.pop(word, None)
            part = real[0]
        else:
            return words
    return words


def _look_up(reference: str, root: Schema) -> Any:
    place: Any = root
    for name in reference.removeprefix("#/").split("/"):
        place = place.get(name) if isinstance(place, dict) else None
    return place


def kind_of(name: str, part: Schema, root: Schema) -> tuple[str, Choices]:
    """Say which field fits: text integer number boolean choice choices list documents json."""
    if name in ("documents", "document_ids") and _takes_texts(part, root):
        return "documents", ()
    values = part.get("enum")
    if "const" in part:
        values = [part["const"]]
    if isinstance(values, list) and values:
        return "choice", _choices(values)
    kind = part.get("type")
    if kind == "array":
        return _kind_of_list(part, root)
    if kind == "string":
        return "text", ()
    return (kind, ()) if isinstance(kind, str) and kind in ("integer", "number", "boolean") else ("json", ())


def _kind_of_list(part: Schema, root: Schema) -> tuple[str, Choices]:
    items = resolve(part.get("items"), root)
    if isinstance(items.get("enum"), list):
        return "choices", _choices(items["enum"])
    return ("list" if items.get("type") == "string" else "json"), ()


def _takes_texts(part: Schema, root: Schema) -> bool:
    """Say whether a list of texts is allowed, alone or as one of several kinds (a list of ids, or "all")."""
    options = part.get("anyOf") or part.get("oneOf")
    for option in options if isinstance(options, list) else [part]:
        one = resolve(option, root)
        if one.get("type") == "array" and resolve(one.get("items"), root).get("type") == "string":
            return True
    return False


def _choices(values: list[Any]) -> Choices:
    return tuple((json.dumps(v), v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)) for v in values)


def title_of(name: str, part: Schema) -> str:
    """Give the label of a field: the schema's title in the reader's language where we know it."""
    title = part.get("title")
    return _(title) if isinstance(title, str) and title else name.replace("_", " ").capitalize()
