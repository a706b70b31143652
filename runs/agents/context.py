"""What an agent gets to work with: each awaited method is one durable step. Pure: a Protocol and its values.

The rules that make a run able to go on after its worker died:

- A finished step is never computed again; its stored result (or stored error) is returned at once.
- Steps are known by their call path ("1", "2", "3.1") and by what was asked. An agent therefore reads no clock, no
  random number and no outside world except through this context; one that asks something else on the second walk
  fails with a clear error.
- A stored result is equal to the first one, but its keys may come in another order: sort them when JSON is made into
  text that a later step asks with.
- A cancel comes as a BaseException out of the step that is under way. Do not swallow it.
"""

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, overload

from pydantic import BaseModel

from runs.agents.errors import AgentStepError
from runs.agents.shell import Shell
from tools.effects import JSON
from tools.models.protocol import Message, ToolUse
from tools.spec import ToolSpec

type Schema = type[BaseModel] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a model said. `tool_uses` are checked by nobody yet; `value` is the parsed JSON when a schema was given."""

    text: str
    tool_uses: tuple[ToolUse, ...] = ()
    stop_reason: str = "stop"
    value: Any = None
    input_tokens: int = 0
    output_tokens: int = 0

    def as_message(self) -> Message:
        """Return the reply as the assistant's message of the next turn."""
        return Message("assistant", self.text, tool_calls=self.tool_uses)


class StepLog(Protocol):
    """A logger that says nothing while stored steps are walked again, so that each line comes once."""

    def info(self, event: str, /, **fields: Any) -> None: ...
    def warning(self, event: str, /, **fields: Any) -> None: ...


class RunContext(Protocol):
    """The one argument that every agent gets first.

    run_id ("run_…"), tenant_id (hex) and user_id (the person's key as text) say for whom the run acts; attempt counts
    from 1; metadata is what the run's creator sent along.
    """

    @property
    def run_id(self) -> str: ...
    @property
    def tenant_id(self) -> str: ...
    @property
    def user_id(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...
    @property
    def history(self) -> tuple[Message, ...]:
        """What was said before in the conversation, oldest first; empty outside of one. The same on every walk.

        Each tool call in it has exactly one result. What was interrupted is told as that.
        """
        ...

    @property
    def log(self) -> StepLog: ...

    async def model(
        self,
        messages: str | Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Schema | None = None,
        max_tokens: int = 512,
        temperature: float = 0.0,
        seed: int | None = None,
        model: str | None = None,
        label: str | None = None,
        metadata: Mapping[str, JSON] | None = None,
    ) -> ModelReply:
        """Ask the model and stream its text to everyone who watches.

        messages: a plain text is one user message. model: "provider:name"; None is the installation's own. label:
        what people see beside the text. metadata: for scripted models; never sent to a provider.
        Raises: ModelFailed.
        """
        ...

    async def tool(self, tool: ToolSpec | str, /, **arguments: Any) -> JSON:
        """Call a tool and return its receipt's value; a write or idempotent one goes through the ledger first.

        A call of a committed operation (same tool and arguments, inherited from the attempt before) returns that
        receipt. An unknown outcome does not come back here. Raises: ToolFailed (bad arguments and unknown names too).
        """
        ...

    @overload
    async def ask[M: BaseModel](self, prompt: str, *, schema: type[M], timeout_seconds: float | None = None) -> M: ...
    @overload
    async def ask(self, prompt: str, *, schema: Mapping[str, Any], timeout_seconds: float | None = None) -> JSON: ...
    async def ask(self, prompt: str, *, schema: Schema, timeout_seconds: float | None = None) -> Any:
        """Ask a person; the run waits and holds no worker. Raises: InputTimeout."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait at least that long; the run holds no worker meanwhile."""
        ...

    @overload
    async def gather[T](
        self, *branches: Coroutine[Any, Any, T], limit: int | None = None, return_errors: Literal[False] = False
    ) -> list[T]: ...
    @overload
    async def gather[T](
        self, *branches: Coroutine[Any, Any, T], limit: int | None = None, return_errors: Literal[True]
    ) -> list[T | AgentStepError]: ...
    async def gather(
        self, *branches: Coroutine[Any, Any, Any], limit: int | None = None, return_errors: bool = False
    ) -> list[Any]:
        """Run branches side by side, at most `limit` at a time, and return their results in the order given.

        Every branch is settled before this returns, whatever the others do; its steps have paths of its own, by its
        place in the arguments. An AgentStepError of a branch is then raised (the first by place), or stands in the
        list with return_errors=True. Any other exception is raised.
        """
        ...

    async def spawn(
        self,
        agent: str,
        input: Mapping[str, Any] | BaseModel | None = None,
        *,
        title: str | None = None,
        deadline_seconds: float | None = None,
    ) -> JSON:
        """Run another agent as a child run, and return its result; the run holds no worker meanwhile.

        Several side by side by `gather`. A child acts for the same person, ends at the latest at this run's deadline,
        spends the same budget and is stopped with this run. One that this run no longer waits for (an agent's own
        timeout, or its end) is stopped. Raises: ChildFailed.
        """
        ...

    async def shell(self, target: str = "local", *, rows: int = 24, cols: int = 80, title: str | None = None) -> Shell:
        """Open a terminal that stays: a child run, which people watch and may take over, and this run types into.

        It ends at the latest with this run, and a Stop ends both. A new attempt opens a new one. target: the name of a
        local target without a list of commands. Raises: ChildFailed.
        """
        ...

    async def say(self, text: str, *, label: str | None = None) -> None:
        """Say a finished text as the assistant's message, in one step."""
        ...

    async def artifact(self, name: str, content: str | bytes, *, content_type: str = "text/plain") -> str:
        """Store a file of the run and return its id ("art_…"). The same name again replaces its content."""
        ...

    async def set_title(self, title: str) -> None:
        """Give the run a title (cut to 300 characters)."""
        ...
