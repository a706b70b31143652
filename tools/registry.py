"""The tools of this process by name, and how a language model is told about them."""

from typing import Any

from tools import parameters
from tools.errors import ToolError
from tools.spec import ToolSpec

_tools: dict[str, ToolSpec] = {}


class UnknownTool(ToolError):
    """Nobody registered a tool of that name; the model or the author has to take another one."""

    def __init__(self, name: str) -> None:
        known = ", ".join(sorted(_tools)) or "none"
        super().__init__(f"There is no tool {name!r}. Known tools: {known}.", code="unknown_tool")
        self.name = name


def register(spec: ToolSpec) -> None:
    """Add a tool. Raises ValueError when another function has the name (the same one again replaces itself)."""
    known = _tools.get(spec.name)
    if known is not None and _place(known) != _place(spec):
        raise ValueError(f"Tool name {spec.name!r} is taken by {_place(known)}.")
    _tools[spec.name] = spec


def get_tool(name: str) -> ToolSpec:
    """Return the tool of that name. Raises UnknownTool, a ToolError, so that a model's slip is no crash."""
    try:
        return _tools[name]
    except KeyError:
        raise UnknownTool(name) from None


def all_tools() -> tuple[ToolSpec, ...]:
    """Return every registered tool, by name."""
    return tuple(_tools[name] for name in sorted(_tools))


def describe_for_model(spec: ToolSpec) -> dict[str, Any]:
    """Return {"name", "description", "parameters": JSON schema} as model providers want it."""
    return {
        "name": spec.name,
        "description": spec.description,
        "parameters": parameters.json_schema(spec.parameters),
    }


def _place(spec: ToolSpec) -> str:
    return f"{spec.fn.__module__}:{spec.fn.__qualname__}"
