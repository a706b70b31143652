"""The rule for what may enter a run: strict types, known fields, text that can be stored, a bounded size.

    true is no 1, "3" is no 3            NaN and infinities are refused
    unknown fields are refused           NUL and lone surrogates are refused, not mended: a person can mend them
    whole numbers fit in 64 bits         the whole input fits in max_input_bytes

Every refusal names the field as the API's caller knows it: "input.prompt", "input.documents.3", or "input".
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from runs.conf import limits
from runs.errors import InvalidInput, TooLarge
from tools.plain_json import find_problems

MAX_PROBLEMS = 20
INT_LIMIT = 2**63


@dataclass(frozen=True, slots=True)
class InputProblem:
    """One field that does not fit, and why."""

    field: str
    message: str


class AgentInputInvalid(InvalidInput):
    """The input does not fit the agent. problems: at least one; field and message are those of the first."""

    def __init__(self, problems: tuple[InputProblem, ...]) -> None:
        super().__init__(problems[0].field, problems[0].message)
        self.problems = problems
        self.details["fields"] = [{"field": p.field, "message": p.message} for p in problems]


def parse_input(model: type[BaseModel], raw: object) -> BaseModel:
    """Return the checked input of a run. Raises: AgentInputInvalid; TooLarge naming the longest field."""
    if not isinstance(raw, Mapping):
        raise AgentInputInvalid((InputProblem("input", "must be an object"),))
    unclean = [InputProblem(_path(p.path), p.message) for p in find_problems(raw)]
    if not unclean:  # only now is it sure that the nesting is bounded
        unclean = [InputProblem(_path(path), "is a number out of range") for path in _huge_numbers(raw)]
    if unclean:
        raise AgentInputInvalid(tuple(unclean[:MAX_PROBLEMS]))
    text = json.dumps(raw, ensure_ascii=False)
    size = len(text.encode())
    if size > limits().max_input_bytes:
        message = f"is too long: the input has {size} bytes, and {limits().max_input_bytes} are allowed"
        raise TooLarge(_path(_longest_field(raw)), message)
    try:
        return model.model_validate_json(text, strict=True, extra="forbid")
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        problems = [InputProblem(_path(".".join(map(str, item["loc"]))), item["msg"]) for item in found]
        raise AgentInputInvalid(tuple(problems[:MAX_PROBLEMS])) from None


def _path(path: str) -> str:
    return f"input.{path}" if path else "input"


def _huge_numbers(value: object, path: str = "") -> Iterator[str]:
    """Yield the places of whole numbers that neither JSON readers nor PostgreSQL columns keep exact."""
    if isinstance(value, int) and not -INT_LIMIT <= value < INT_LIMIT:
        yield path
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _huge_numbers(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _huge_numbers(item, f"{path}.{index}" if path else str(index))


def _longest_field(raw: Mapping[Any, Any]) -> str:
    return max(raw, key=lambda name: len(json.dumps(raw[name])), default="")
