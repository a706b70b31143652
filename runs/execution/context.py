"""The context that agents get: a thin front of the steps (the contract is runs.agents.context.RunContext)."""

import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from runs.agents.context import ModelReply, Schema
from runs.agents.shell import Shell
from runs.execution.child_step import spawn_child
from runs.execution.claim import Claim
from runs.execution.model_ask import ModelAsk, as_messages, read_messages
from runs.execution.model_step import ask_model
from runs.execution.shell_step import open_shell
from runs.execution.small_steps import give_title, keep_artifact, say
from runs.execution.tool_step import call_tool
from runs.execution.waiting_steps import ask_person, sleep
from tools.effects import JSON
from tools.models.protocol import Message
from tools.spec import ToolSpec

logger = logging.getLogger("runs.agents")


class ReplayQuietLog:
    """A logger that says nothing while stored steps are walked again."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim

    def info(self, event: str, /, **fields: Any) -> None:
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        self._log(logging.WARNING, event, fields)

    def _log(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if not self._claim.history.is_replaying:
            logger.log(level, event, extra={"fields": fields, "run_id": self._claim.run_text})


class StepContext:
    """A RunContext over one claim. Its docstrings are the Protocol's."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self.log = ReplayQuietLog(claim)

    @property
    def run_id(self) -> str:
        return self._claim.run_text

    @property
    def tenant_id(self) -> str:
        tenant: str = self._claim.run["tenant_id"].hex
        return tenant

    @property
    def user_id(self) -> str:
        return str(self._claim.run["created_by_id"])

    @property
    def attempt(self) -> int:
        return self._claim.origin.attempt

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the creator of the run sent along with it."""
        return dict(self._claim.run["metadata"] or {})

    @property
    def history(self) -> tuple[Message, ...]:
        return read_messages(self._claim.run["history"])

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
        ask = ModelAsk(
            messages=as_messages(messages),
            tools=tuple(tools),
            schema=schema,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
            model=model,
            label=label,
            metadata=metadata or {},
        )
        return await ask_model(self._claim, ask)

    async def tool(self, tool: ToolSpec | str, /, **arguments: Any) -> JSON:
        return await call_tool(self._claim, tool, arguments)

    async def ask(self, prompt: str, *, schema: Schema, timeout_seconds: float | None = None) -> Any:
        return await ask_person(self._claim, prompt, schema, timeout_seconds)

    async def sleep(self, seconds: float) -> None:
        await sleep(self._claim, seconds)

    async def gather(
        self, *branches: Coroutine[Any, Any, Any], limit: int | None = None, return_errors: bool = False
    ) -> list[Any]:
        return await self._claim.branches.gather(branches, limit=limit, return_errors=return_errors)

    async def spawn(
        self,
        agent: str,
        input: Mapping[str, Any] | BaseModel | None = None,
        *,
        title: str | None = None,
        deadline_seconds: float | None = None,
    ) -> JSON:
        return await spawn_child(self._claim, agent, input, title, deadline_seconds)

    async def shell(self, target: str = "local", *, rows: int = 24, cols: int = 80, title: str | None = None) -> Shell:
        return await open_shell(self._claim, target, rows, cols, title)

    async def say(self, text: str, *, label: str | None = None) -> None:
        await say(self._claim, text, label)

    async def artifact(self, name: str, content: str | bytes, *, content_type: str = "text/plain") -> str:
        return await keep_artifact(self._claim, name, content, content_type)

    async def set_title(self, title: str) -> None:
        await give_title(self._claim, title)
