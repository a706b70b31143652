"""The agents of this process by name: what each takes, gives back, and does when its page is gone.

    @agent("billing", on_disconnect="continue", deadline_seconds=600)
    async def billing(ctx: RunContext, request: BillingRequest) -> str: ...

The input model is the annotation of the second parameter, the result type is the return annotation; both are read
when the agent is registered, so a mistake stops the process at start and not a run at its end. The built-in agents
and the modules named in OUTLIVE_AGENTS (import paths, comma separated) are loaded at the first question.
"""

import importlib
import inspect
import math
import os
import re
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.errors import PydanticUserError

from runs.agents.inputs import parse_input
from runs.errors import UnknownAgent
from tools.effects import JSON
from tools.plain_json import clean_json

type AgentFunction = Callable[..., Coroutine[Any, Any, Any]]
type OnDisconnect = str | Mapping[str, float]

BUILTIN = ("chat", "researcher", "assistant", "billing", "probe", "shell")
MAX_GRACE_SECONDS = 86_400
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_agents: dict[str, "AgentSpec"] = {}
_loading = threading.RLock()
_loaded = threading.Event()


class AgentDecorator(Protocol):
    """Takes an async function and gives it back as it is."""

    def __call__[F: AgentFunction](self, fn: F, /) -> F: ...


class AgentModuleFailed(ImportError):
    """A module named in OUTLIVE_AGENTS cannot be imported; the process should not start."""


class NoInput(BaseModel):
    """The input of an agent that takes none."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, eq=False)
class AgentSpec:
    """A registered agent.

    on_disconnect: "continue", "cancel", or {"grace_s": seconds}. deadline_seconds: for a run whose creator states
    none; None = the installation's default. is_listed: shown where people choose an agent. converses: its runs follow
    one another in a conversation, and the input's `prompt` is what the person says.
    """

    name: str
    fn: AgentFunction
    input_model: type[BaseModel]
    on_disconnect: OnDisconnect
    deadline_seconds: float | None
    description: str
    is_listed: bool
    converses: bool
    takes_input: bool
    result: TypeAdapter[Any] = field(repr=False)

    def parse_input(self, raw: object) -> BaseModel:
        """Return the checked input. Raises: InvalidInput naming the field ("input.prompt")."""
        return parse_input(self.input_model, raw)

    def normal_input(self, raw: object) -> dict[str, JSON]:
        """Return the checked input as JSON with defaults filled in: what a run stores. Raises: InvalidInput.

        Stable: checking the result again gives the same.
        """
        dumped: dict[str, JSON] = self.parse_input(raw).model_dump(mode="json", by_alias=True)
        return dumped

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the input, for forms and the API's document."""
        return {"additionalProperties": False, **self.input_model.model_json_schema(by_alias=True)}

    def start(self, ctx: object, raw_input: object) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of one walk through the agent. Raises: InvalidInput."""
        checked = self.parse_input(raw_input)
        return self.fn(ctx, checked) if self.takes_input else self.fn(ctx)

    def dump_result(self, value: object) -> JSON:
        """Return what the agent returned as storable JSON.

        Raises: AgentResultInvalid when it is not what the return annotation says, or no JSON.
        """
        try:
            checked = self.result.validate_python(value, strict=True)
            return clean_json(self.result.dump_python(checked, mode="json", by_alias=True, warnings="error"))
        except ValueError as error:  # pydantic's ValidationError and PydanticSerializationError
            raise AgentResultInvalid(self.name, str(error)) from error


class AgentResultInvalid(Exception):
    """An agent returned something else than it is annotated with; a bug of its author."""

    code = "result_invalid"

    def __init__(self, agent: str, problem: str) -> None:
        super().__init__(f"Agent {agent} returned what its annotation does not allow: {problem[:500]}")


def agent(
    name: str,
    *,
    on_disconnect: OnDisconnect = "continue",
    deadline_seconds: float | None = None,
    listed: bool = True,
    converses: bool = False,
    description: str | None = None,
) -> AgentDecorator:
    """Register an async function as an agent and return it unchanged.

    description: default is the docstring's first paragraph. Raises TypeError or ValueError at import where the
    declaration cannot work, or the name is taken by another function.
    """

    def decorate[F: AgentFunction](fn: F) -> F:
        _check_declaration(name, fn, on_disconnect, deadline_seconds)
        input_model, result, takes_input = _read_signature(name, fn)
        if converses and "prompt" not in input_model.model_fields:
            raise TypeError(f"Agent {name} converses, so its input needs a field `prompt`: what the person says.")
        text = inspect.cleandoc(fn.__doc__ or "").split("\n\n")[0] if description is None else description
        spec = AgentSpec(
            name=name,
            fn=fn,
            input_model=input_model,
            on_disconnect=on_disconnect,
            deadline_seconds=deadline_seconds,
            description=" ".join(text.split()),
            is_listed=listed,
            converses=converses,
            takes_input=takes_input,
            result=result,
        )
        known = _agents.get(name)
        if known is not None and _place(known.fn) != _place(fn):
            raise ValueError(f"Agent name {name!r} is taken by {_place(known.fn)}.")
        _agents[name] = spec
        return fn

    return decorate


def get_agent(name: str) -> AgentSpec:
    """Return the agent of that name. Raises: UnknownAgent; AgentModuleFailed at the first call."""
    load_agents()
    try:
        return _agents[name]
    except KeyError:
        raise UnknownAgent(name, [spec.name for spec in all_agents() if spec.is_listed]) from None


def all_agents() -> tuple[AgentSpec, ...]:
    """Return every registered agent by name, the unlisted ones too. Raises: AgentModuleFailed at the first call."""
    load_agents()
    return tuple(_agents[name] for name in sorted(_agents))


def load_agents() -> None:
    """Import the built-in agents and the modules of OUTLIVE_AGENTS, once per process.

    Needs Django to be set up, because built-in agents use tools that read our own tables.
    Raises: AgentModuleFailed naming the module; the next call tries again.
    """
    if _loaded.is_set():
        return
    with _loading:
        for module in BUILTIN:
            importlib.import_module(f"runs.agents.builtin.{module}")
        for path in filter(None, map(str.strip, os.environ.get("OUTLIVE_AGENTS", "").split(","))):
            try:
                importlib.import_module(path)
            except Exception as error:  # the author's module may raise anything; the operator must see which one
                message = f"OUTLIVE_AGENTS names {path!r}, which cannot be imported: {error}"
                raise AgentModuleFailed(message) from error
        _loaded.set()


def _check_declaration(
    name: str, fn: AgentFunction, on_disconnect: OnDisconnect, deadline_seconds: float | None
) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"Agent name {name!r} must be lower case letters, digits, _ and -, at most 64.")
    if not inspect.iscoroutinefunction(fn):
        raise TypeError(f"Agent {name} must be an async function.")
    if deadline_seconds is not None and not _is_seconds(deadline_seconds, math.inf):
        raise ValueError(f"Agent {name}: deadline_seconds must be a positive number.")
    if on_disconnect in ("continue", "cancel"):
        return
    grace = on_disconnect.get("grace_s") if isinstance(on_disconnect, Mapping) else None
    if grace is None or len(on_disconnect) != 1 or not _is_seconds(grace, MAX_GRACE_SECONDS):
        raise ValueError(
            f'Agent {name}: on_disconnect must be "continue", "cancel" or {{"grace_s": seconds}}, '
            f"at most {MAX_GRACE_SECONDS}."
        )


def _is_seconds(value: object, most: float) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value <= most and math.isfinite(value)


def _read_signature(name: str, fn: AgentFunction) -> tuple[type[BaseModel], TypeAdapter[Any], bool]:
    hints = get_type_hints(fn, include_extras=True)
    parameters = list(inspect.signature(fn).parameters.values())
    if len(parameters) not in (1, 2) or any(
        p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters
    ):
        raise TypeError(f"Agent {name} must take the context and at most one input.")
    model: Any = hints.get(parameters[1].name) if len(parameters) == 2 else NoInput
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise TypeError(f"Agent {name}: the second parameter must be annotated with a pydantic model.")
    if "return" not in hints:
        raise TypeError(f"Agent {name} must say what it returns (-> str, a pydantic model, None, ...).")
    try:
        result: TypeAdapter[Any] = TypeAdapter(hints["return"])
        result.json_schema(mode="serialization")
    except PydanticUserError as error:
        raise TypeError(f"Agent {name}: the result type is no JSON: {error.message}") from None
    return model, result, len(parameters) == 2


def _place(fn: AgentFunction) -> str:
    return f"{fn.__module__}:{fn.__qualname__}"
