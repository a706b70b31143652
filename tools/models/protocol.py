"""The one protocol through which every model is asked: values, stream items, errors.

A stream yields, in this order: any number of TextDelta; then the ToolUseDelta of this turn, each complete; then
Usage where the provider reports it; then exactly one Finished. A stream that ends without Finished never
happens: it raises instead. Tool uses come last on purpose: a reply that was cut in the middle starts no tool.

    ModelError(code)   auth          the key is missing, wrong, or may not use this model
                       rate_limited  asked too often, or the quota is spent (then retryable is False)
                       bad_request   the provider will refuse this request every time
                       unavailable   no connection, a cut stream, a 5xx, an answer that cannot be read
                       overloaded    the provider says that it is overloaded

The end of the scope (cancel or deadline) is no ModelError: the stream raises ScopeCancelled.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from tools.scope import Scope

type Role = Literal["system", "user", "assistant", "tool"]
type ErrorCode = Literal["auth", "rate_limited", "bad_request", "unavailable", "overloaded"]
type StopReason = Literal["stop", "length", "tool_call", "content_filter", "error"]

RETRYABLE: frozenset[ErrorCode] = frozenset({"rate_limited", "unavailable", "overloaded"})


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call that the model asks for. `id` is the provider's; `arguments` is a JSON object, not yet validated."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation. A "tool" message answers the ToolUse whose id is `tool_call_id`."""

    role: Role
    content: str
    tool_calls: tuple[ToolUse, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What is asked, the same for every provider.

    tools: descriptions as {"name", "description", "parameters": JSON schema}. schema: constrain the answer to this
    JSON schema. max_tokens bounds the reply. seed where the provider has one. metadata: run_id, step_id; it is
    never sent to a provider.
    """

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] = ()
    schema: dict[str, Any] | None = None
    max_tokens: int = 512
    temperature: float = 0.0
    seed: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TextDelta:
    """A piece of text. `t` is the time.time() at which a scripted model made it, else None.

    Treat it as frozen; it is not declared so because it is built 100,000 times a second in benchmarks.
    """

    text: str
    t: float | None = None


@dataclass(frozen=True, slots=True)
class ToolUseDelta:
    """One complete tool use."""

    tool_use: ToolUse


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The last item: the provider ended by itself. `request_id` is the provider's own id, for its support."""

    stop_reason: StopReason
    request_id: str | None
    provider: str
    model: str


type StreamItem = TextDelta | ToolUseDelta | Usage | Finished


class ModelError(Exception):
    """A model call that failed; see the module docstring for the codes.

    retryable says whether the same request may succeed later; retry_after_seconds is what the provider asked for.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        retryable: bool | None = None,
        *,
        request_id: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = code in RETRYABLE if retryable is None else retryable
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds


class ModelProvider(Protocol):
    """A model that can be asked.

    supports_tools says whether tool calls are the model's own skill; where it is False, `stream` still accepts
    tools and chooses one by other means, which its docstring tells.
    """

    name: str
    supports_tools: bool

    def stream(self, request: ModelRequest, *, scope: Scope) -> AsyncGenerator[StreamItem]:
        """Ask, and yield what comes.

        Bounded by scope.remaining(); nothing is ever asked twice. Closing the generator (aclose) or a cancel of the
        scope closes the socket before it returns. Raises: ModelError; ScopeCancelled.
        """
        ...
