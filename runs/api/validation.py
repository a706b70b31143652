"""From pydantic's list of faults to the one field and the one sentence that a caller wants to read first."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

# Where ninja and pydantic name their own machinery instead of something that the caller wrote: the source of
# the parameter, the branch of a union, a validator.
_SOURCES = frozenset({"body", "query", "path", "header", "form", "file", "cookie"})
_MACHINERY = re.compile(r"[\[\]()]")
MAX_FAULTS = 20


@dataclass(frozen=True, slots=True)
class Fault:
    """The first fault, and all of them for `details`."""

    param: str | None
    message: str
    all_faults: list[dict[str, Any]]


def first_fault(errors: Sequence[dict[str, Any]]) -> Fault:
    """Name the field of the first fault (`input.notes.2`) and say in a sentence what is wrong with it."""
    faults = [{"param": field_of(error["loc"]), "message": _sentence(error)} for error in errors[:MAX_FAULTS]]
    if not faults:
        return Fault(None, _("The request is not valid."), [])
    first = faults[0]
    if first["param"] is None and errors[0]["type"] == "missing":
        return Fault(None, _("Send a JSON body."), faults)
    return Fault(first["param"], str(first["message"]), faults)


def field_of(place: Sequence[str | int]) -> str | None:
    """Write the place of a fault as the caller knows it; None when it is the body as a whole."""
    parts = list(place)
    if parts and parts[0] in _SOURCES:
        # For a body, ninja puts the name of the view's argument next; callers never see that name.
        parts = parts[2:] if parts[0] == "body" else parts[1:]
    named = [str(part) for part in parts if isinstance(part, int) or not _MACHINERY.search(part)]
    return ".".join(named) or None


def _sentence(error: dict[str, Any]) -> str:
    kind = error["type"]
    if kind == "missing":
        return _("This field is required.")
    if kind == "extra_forbidden":
        return _("There is no such field.")
    message = str(error["msg"])
    return message if message.endswith(".") else f"{message}."
