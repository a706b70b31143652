"""A tool's parameters as a pydantic model, built from the signature of its function.

Strict: a bool is no int, "3" is no 3, unknown names are refused, NaN is refused. Strings of JSON become dates, enums
and UUIDs, because JSON has no other way to say them.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema

from tools.call import ToolCall
from tools.effects import JSON
from tools.errors import ArgumentProblem, ToolArgumentsInvalid
from tools.plain_json import find_problems

_PREFIX = "arg_"  # keeps "copy", "json", "schema" and the like apart from BaseModel's own names
_STRICT = ConfigDict(
    strict=True,
    extra="forbid",
    allow_inf_nan=False,
    validate_default=True,
    frozen=True,
    arbitrary_types_allowed=False,
)


class _Untitled(GenerateJsonSchema):
    """Titles repeat the names; a model pays for each token of them."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def takes_call(fn: Callable[..., object]) -> str | None:
    """Return the name of the parameter that wants the ToolCall: the one annotated so, or None."""
    hints = get_type_hints(fn)
    return next((name for name in inspect.signature(fn).parameters if hints.get(name) is ToolCall), None)


def build_parameters(fn: Callable[..., object], *, tool: str) -> type[BaseModel]:
    """Return the model of all parameters of `fn` but the ToolCall.

    Raises TypeError (at import, for the author) for *args, **kwargs, positional-only or unannotated parameters.
    """
    hints = get_type_hints(fn, include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(fn).parameters.items():
        if hints.get(name) is ToolCall:
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"Tool {tool}: parameter {name} must be passable by name.")
        if name not in hints:
            raise TypeError(f"Tool {tool}: parameter {name} needs an annotation (a ToolCall too).")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[_PREFIX + name] = (hints[name], Field(default, alias=name))
    return create_model(f"{tool}_parameters", __config__=_STRICT, **fields)


def parse(model: type[BaseModel], arguments: Mapping[str, Any], *, tool: str) -> BaseModel:
    """Return the checked arguments. Raises ToolArgumentsInvalid with one problem per field."""
    problems = list(find_problems(arguments))
    if problems:
        raise ToolArgumentsInvalid(tool, problems)
    try:
        return model.model_validate_json(json.dumps(arguments))
    except ValidationError as error:
        found = [
            ArgumentProblem(".".join(map(str, item["loc"])), item["msg"])
            for item in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        raise ToolArgumentsInvalid(tool, found) from None


def as_json(checked: BaseModel) -> dict[str, JSON]:
    """Return the arguments as JSON values with defaults filled in: what is stored and what keys are made from."""
    dumped: dict[str, JSON] = checked.model_dump(mode="json", by_alias=True)
    return dumped


def as_keywords(checked: BaseModel) -> dict[str, Any]:
    """Return the arguments as Python values, by the parameter names of the function."""
    return {name.removeprefix(_PREFIX): getattr(checked, name) for name in type(checked).model_fields}


def names(model: type[BaseModel]) -> list[str]:
    """Return the parameter names, in order."""
    return [name.removeprefix(_PREFIX) for name in model.model_fields]


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema that a language model gets to see."""
    schema = model.model_json_schema(by_alias=True, schema_generator=_Untitled)
    schema.pop("title", None)
    return schema
