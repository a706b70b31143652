"""A form from a JSON schema: the start form of an agent and the answer form of a question are the same thing.

Covered are text, numbers, yes/no, choices, lists and flat objects of those; anything deeper becomes a JSON field,
so that every schema has a form. The form checks what a person can easily mend and says it in their language;
the agent's model (or the question's schema) decides in the service.
"""

import json
import math
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from runs.pages.schema_reading import Schema, kind_of, resolve, title_of

MAX_FIELDS = 50
LINES_ABOVE = 200  # a text that may be longer than this gets several lines


class Posted(Protocol):
    """What a QueryDict offers."""

    def get(self, key: str, default: Any = ...) -> Any: ...
    def getlist(self, key: str) -> list[Any]: ...
    def __contains__(self, key: object) -> bool: ...


@dataclass(frozen=True, slots=True)
class FormField:
    """One question of the form. `value` is what the person sees in it: a text, or a list for several choices."""

    name: str
    key: str  # its name in the POST
    label: str
    kind: str  # text lines integer number boolean choice choices list documents json
    is_required: bool
    help: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    limits: dict[str, Any] = field(default_factory=dict)  # min max minlength maxlength step
    value: Any = ""
    error: str = ""


class Wrong(ValueError):
    """What was typed cannot be taken; the message is for the person."""


def fields_of(schema: Schema, *, prefix: str) -> list[FormField]:
    """Make the fields of a schema. One that is no object becomes a single field called `value`."""
    whole = resolve(schema, schema)
    if is_single(schema):
        return [_field("value", whole, schema, prefix=prefix, is_required=True)]
    required = whole.get("required")
    return [
        _field(name, resolve(part, schema), schema, prefix=prefix,
               is_required=isinstance(required, list) and name in required)
        for name, part in (whole.get("properties") or {}).items()
        if isinstance(part, dict)
    ]  # fmt: skip


def fields_of_stored(schema: Schema, *, prefix: str) -> list[FormField]:
    """Make the fields of a schema that comes from a JSONB column, which has forgotten the order of its properties.

    A list keeps its order there: what is required comes first, as the agent's author put it.
    """
    whole = resolve(schema, schema)
    required, known = whole.get("required"), whole.get("properties")
    if not isinstance(required, list) or not isinstance(known, dict):
        return fields_of(schema, prefix=prefix)
    first = {name: known[name] for name in required if isinstance(name, str) and name in known}
    return fields_of({**schema, **whole, "properties": {**first, **known}}, prefix=prefix)


def is_single(schema: Schema) -> bool:
    """Say whether the answer is the value of one field and not an object of fields."""
    whole = resolve(schema, schema)
    properties = whole.get("properties")
    if whole.get("type") != "object":
        return True
    if not properties:
        return (
            whole.get("additionalProperties") is not False
        )  # an object of which only the rest is known, or of nothing
    return not isinstance(properties, dict) or len(properties) > MAX_FIELDS


def _field(name: str, part: Schema, root: Schema, *, prefix: str, is_required: bool) -> FormField:
    kind, choices = kind_of(name, part, root)
    if kind == "text" and "pattern" not in part and (part.get("maxLength") or LINES_ABOVE + 1) > LINES_ABOVE:
        kind = "lines"
    limits = {
        html: part[word]
        for html, word in (
            ("min", "minimum"),
            ("max", "maximum"),
            ("minlength", "minLength"),
            ("maxlength", "maxLength"),
        )
        if isinstance(part.get(word), int | float)
    }
    if kind == "list":
        limits = {}
    return FormField(
        name=name,
        key=f"{prefix}{name}",
        label=title_of(name, part),
        kind=kind,
        is_required=is_required and kind != "boolean",
        help=_help(kind, part),
        choices=choices,
        limits=limits,
        value=shown(kind, part.get("default")),
    )


def _help(kind: str, part: Schema) -> str:
    """Give the help of a field; how a program writes a list of documents helps nobody who ticks boxes."""
    text = part.get("description")
    return _(text) if isinstance(text, str) and text and kind != "documents" else ""


def shown(kind: str, value: Any) -> Any:
    """Give a value as its field shows it."""
    if kind == "choices":
        return [json.dumps(v) for v in value] if isinstance(value, list) else []
    if kind == "documents":
        return [str(v) for v in value] if isinstance(value, list) else []
    if kind == "choice":
        return json.dumps(value) if value is not None else ""
    if kind == "boolean":
        return value is True
    if kind == "list":
        return "\n".join(map(str, value)) if isinstance(value, list) else ""
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if kind == "json" or not isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Filled:
    """The form as it came back: its fields with what was typed and what is wrong, and the values that are right."""

    fields: list[FormField]
    values: dict[str, Any]

    @property
    def is_good(self) -> bool:
        return not any(f.error for f in self.fields)

    def with_label(self, label: str) -> "Filled":
        """Give a form of one field another label."""
        return Filled([replace(f, label=label) for f in self.fields], self.values)

    def with_errors(self, errors: dict[str, str]) -> "Filled":
        """Add what the service found; an error of an unknown field goes to the first one."""
        names = {f.name for f in self.fields}
        rest = "; ".join(text for name, text in errors.items() if name not in names)
        fields = [replace(f, error=f.error or errors.get(f.name, "")) for f in self.fields]
        if rest and fields and not fields[0].error:
            fields[0] = replace(fields[0], error=rest)
        return Filled(fields, self.values)


def fill(fields: list[FormField], posted: Posted) -> Filled:
    """Read the posted form. An optional field that was left empty is left out, so that its default holds."""
    filled: list[FormField] = []
    values: dict[str, Any] = {}
    for one in fields:
        many = one.kind in ("choices", "documents")
        raw = posted.getlist(one.key) if many else str(posted.get(one.key, ""))
        kept = raw == "true" or raw == "on" if one.kind == "boolean" else raw
        error = ""
        try:
            # No box ticked is an answer where boxes were ticked before; no document picked means the default.
            if one.kind in ("boolean", "choices") or raw or one.is_required:
                values[one.name] = _read(one, raw)
        except Wrong as wrong:
            error = str(wrong)
        filled.append(replace(one, value=kept, error=error))
    return Filled(filled, values)


def _read(one: FormField, raw: Any) -> Any:
    if one.kind == "boolean":
        return raw in ("true", "on")
    if one.is_required and (not raw or (not isinstance(raw, list) and not raw.strip())):
        raise Wrong(_("Choose at least one.") if isinstance(raw, list) else _("This is needed."))
    match one.kind:
        case "integer" | "number":
            return _number(one, raw.strip())
        case "choice":
            return _chosen(one, raw)
        case "choices":
            return [_chosen(one, value) for value in raw]
        case "documents":
            return raw
        case "list":
            return [line.strip() for line in raw.splitlines() if line.strip()]
        case "json":
            return _json(raw)
    return _text(one, raw.replace("\r\n", "\n"))


def _text(one: FormField, text: str) -> str:
    least, most = one.limits.get("minlength", 0), one.limits.get("maxlength", math.inf)
    if "\x00" in text:
        raise Wrong(_("This has a character that cannot be stored (NUL). Remove it."))
    if len(text) > most:
        raise Wrong(
            _("This is too long: %(length)s characters, and %(most)s are allowed.")
            % {"length": len(text), "most": most}
        )
    if len(text) < least:
        raise Wrong(
            ngettext("At least %(n)s character is needed.", "At least %(n)s characters are needed.", int(least))
            % {"n": least}
        )
    return text


def _number(one: FormField, text: str) -> int | float:
    try:
        value: int | float = int(text) if one.kind == "integer" else float(text)
    except ValueError:
        raise Wrong(_("Write a whole number.") if one.kind == "integer" else _("Write a number.")) from None
    if not math.isfinite(value):
        raise Wrong(_("Write a number."))
    if value < one.limits.get("min", -math.inf):
        raise Wrong(_("The least is %(n)s.") % {"n": one.limits["min"]})
    if value > one.limits.get("max", math.inf):
        raise Wrong(_("The most is %(n)s.") % {"n": one.limits["max"]})
    return int(value) if one.kind == "number" and value.is_integer() and "." not in text else value


def _chosen(one: FormField, raw: str) -> Any:
    """Give the value of a choice: choices are sent as JSON, so that 1 and "1" stay apart."""
    if raw not in {value for value, _label in one.choices}:
        raise Wrong(_("Choose one of the list."))
    return json.loads(raw)


def _json(raw: str) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise Wrong(_("Write this as JSON.")) from None
