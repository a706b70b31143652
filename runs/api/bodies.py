"""Reading a JSON body strictly: what PostgreSQL, UTF-8 or JSON itself has no room for is refused, with its place."""

import json
import math
import re
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _
from ninja.parser import Parser

from runs.api.problems import BadRequest, WrongContentType

MAX_DEPTH = 64  # deeper nesting is no input of a person, and would exhaust somebody's stack later
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class StrictJsonParser(Parser):
    """Read the body of every JSON call of the API."""

    def parse_body(self, request: HttpRequest) -> Any:
        """Read the body as strict JSON.

        Raises: WrongContentType, or BadRequest naming the place of the first thing that cannot be kept.
        """
        if request.content_type != "application/json" and not (request.content_type or "").endswith("+json"):
            raise WrongContentType(_("Send the body as application/json."), param="Content-Type")
        return read_json(request.body)


def read_json(raw: bytes) -> Any:
    """Read strict JSON: UTF-8, no NaN or Infinity, no U+0000, no lone surrogate, at most 64 levels.

    Raises: BadRequest; `param` is the place, `input.notes.2`.
    """
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise BadRequest(_("The body is not UTF-8."), code="invalid_json") from None
    except RecursionError:
        raise BadRequest(_("The body is nested too deeply."), code="invalid_json") from None
    except ValueError as error:
        raise BadRequest(_("The body is not valid JSON: %(why)s.") % {"why": error}, code="invalid_json") from None
    check_value(value)
    return value


def check_value(value: Any, place: str = "", depth: int = 0) -> None:
    """Refuse text and numbers that cannot be stored as they are.

    Raises: BadRequest naming the place.
    """
    if isinstance(value, str):
        check_text(value, place)
    elif isinstance(value, float) and not math.isfinite(value):
        raise BadRequest(_("The number is too large."), param=place or None)
    elif isinstance(value, dict | list):
        if depth >= MAX_DEPTH:
            raise BadRequest(_("The body is nested too deeply."), param=place or None)
        if isinstance(value, list):
            for index, item in enumerate(value):
                check_value(item, f"{place}.{index}" if place else str(index), depth + 1)
            return
        for key, item in value.items():
            check_text(key, place or "body")
            check_value(item, f"{place}.{key}" if place else key, depth + 1)


def check_text(text: str, param: str) -> None:
    """Refuse U+0000 and lone surrogates.

    Raises: BadRequest.
    """
    found = _UNSTORABLE.search(text)
    if found is None:
        return
    if found[0] == "\x00":
        raise BadRequest(_("Text must not contain the character U+0000."), param=_UNSTORABLE.sub("\ufffd", param))
    raise BadRequest(_("Text must not contain half of a surrogate pair."), param=_UNSTORABLE.sub("\ufffd", param))


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
