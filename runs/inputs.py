"""What a caller may say around an agent's own input: title, policy, seconds, metadata, and answers to questions.

Each check returns the value to store or raises InvalidInput that names the field; nothing is half-taken. An
agent's input itself is checked by its pydantic model (runs/agents/inputs.py).
"""

import json
import math
from typing import Any

from django.utils.translation import gettext as _
from jsonschema import Draft202012Validator

from runs.conf import limits
from runs.errors import InvalidInput, TooLarge
from tools.plain_json import clean_text, find_problems

MAX_TITLE = 200
MAX_METADATA_BYTES = 16_384
MAX_ANSWER_BYTES = 262_144
MAX_NOTE = 4000
MAX_GRACE_SECONDS = 86_400
MAX_BUDGET_TOKENS = 10**12


def check_text(field: str, value: Any, *, most: int) -> str:
    """Return a stripped, storable, bounded text. Raises: InvalidInput, TooLarge."""
    if not isinstance(value, str):
        raise InvalidInput(field, _("This must be text."))
    if clean_text(value) != value:
        raise InvalidInput(field, _("The text holds characters that cannot be stored (NUL or half a character)."))
    if len(value) > most:
        raise TooLarge(field, _("This is too long: at most %(n)s characters.") % {"n": most})
    return value.strip()


def check_note(note: str, missing: str) -> str:
    """Return a note that stays on record, bounded. Raises: InvalidInput with the text `missing` if it says nothing."""
    text = clean_text(note).strip()[:MAX_NOTE]
    if not text:
        raise InvalidInput("note", missing)
    return text


def check_verdict(outcome: str, note: str) -> tuple[bool, str]:
    """Return whether it happened, and how the person knows. Raises: InvalidInput."""
    if outcome not in ("happened", "not_happened"):
        raise InvalidInput("outcome", _("Say happened or not_happened."))
    return outcome == "happened", check_note(note, _("Write down how you know; the note stays with the operation."))


def check_title(title: str | None, checked_input: dict[str, Any], agent: str) -> str:
    """Return the run's title: the given one, else the first line of the first text of the input."""
    if title is not None:
        given = check_text("title", title, most=MAX_TITLE)
        if given:
            return given
    for value in checked_input.values():
        if isinstance(value, str) and value.strip():
            line = value.strip().splitlines()[0]
            return line if len(line) <= 80 else line[:79] + "…"
    return agent


def check_seconds(field: str, value: Any, *, default: float) -> float:
    """Return a positive, finite number of seconds up to a week; None takes the default. true is no number."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise InvalidInput(field, _("This must be a number of seconds above 0."))
    if value > limits().max_deadline_seconds:
        raise InvalidInput(field, _("At most %(n)s seconds are allowed.") % {"n": int(limits().max_deadline_seconds)})
    return float(value)


def check_policy(value: Any) -> tuple[str, float | None]:
    """Return (policy, grace seconds) of "continue", "cancel" or {"grace_s": n}; `cancel` is a short grace."""
    if value == "continue":
        return "continue", None
    if value == "cancel":
        return "grace", limits().chat_grace_seconds
    if isinstance(value, dict) and set(value) == {"grace_s"}:
        grace = value["grace_s"]
        is_number = isinstance(grace, int | float) and not isinstance(grace, bool) and math.isfinite(grace)
        if is_number and 0 <= grace <= MAX_GRACE_SECONDS:
            return "grace", float(grace)
    raise InvalidInput("on_disconnect", _('Say "continue", "cancel" or {"grace_s": seconds}, at most one day.'))


def check_budget(value: Any) -> int | None:
    """Return how many tokens a run and its children may spend; None is no limit. true is no number."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_BUDGET_TOKENS:
        raise InvalidInput("budget.tokens", _("This must be a whole number of tokens above 0."))
    return value


def check_metadata(value: Any) -> dict[str, Any]:
    """Return a small JSON object of the caller's own; nothing of it is interpreted."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput("metadata", _("This must be an object."))
    checked: dict[str, Any] = _check_json("metadata", value, MAX_METADATA_BYTES)
    return checked


def check_answer(schema: dict[str, Any], value: Any) -> Any:
    """Return an answer that fits the question's JSON schema. Raises: InvalidInput naming the place in it."""
    checked = _check_json("value", value, MAX_ANSWER_BYTES)
    error = next(iter(Draft202012Validator(schema).iter_errors(checked)), None)
    if error is not None:
        place = ".".join(["value", *map(str, error.absolute_path)])
        raise InvalidInput(place, _("The answer does not fit: %(why)s") % {"why": error.message[:300]})
    return checked


def _check_json(field: str, value: Any, most: int) -> Any:
    for problem in find_problems(value):
        raise InvalidInput(field, str(problem))
    if len(json.dumps(value, allow_nan=False)) > most:
        raise TooLarge(field, _("This is too large: at most %(n)s bytes.") % {"n": most})
    return value
