"""A RunContext without a worker: it answers from a script, keeps a journal of steps, and can walk it again.

The journal plays the part of the stored steps: a second walk with the first `keep` entries gets their results back,
and fails as the executor does when the agent asks something else than it did before.
"""

import json
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from runs.agents import AgentStepError, Message, ModelReply, RunContext, ToolFailed
from runs.agents.context import Schema
from tools.call import ToolCall
from tools.effects import JSON, Outcome
from tools.errors import ToolError
from tools.permit import Permit
from tools.processes.host import ProcessHost
from tools.registry import get_tool
from tools.scope import Scope, boottime
from tools.spec import ToolSpec

type Says = str | ModelReply | AgentStepError
type Model = Callable[[Sequence[Message]], Says]
type Tool = Callable[..., JSON]


@dataclass(frozen=True)
class Entry:
    """A step of the journal: where, what was asked, and what came of it."""

    path: str
    kind: str
    asked: str
    result: Any


class Log:
    def info(self, event: str, /, **fields: Any) -> None: ...
    def warning(self, event: str, /, **fields: Any) -> None: ...


@dataclass
class ScriptedContext:
    """model: a function, or replies in order. tools: by name; a tool that is not named runs for real, as a read."""

    model_says: Model | Sequence[Says] = ()
    tools: Mapping[str, Tool] = field(default_factory=dict)
    answers: Sequence[Any] = ()
    tenant_id: str = "0" * 32
    stored: Sequence[Entry] = ()
    run_id: str = "run_" + "1" * 32
    user_id: str = "1"
    attempt: int = 1
    metadata: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[Message, ...] = ()
    log: Log = field(default_factory=Log)

    def __post_init__(self) -> None:
        self.journal: list[Entry] = []
        self._stored = {entry.path: entry for entry in self.stored}
        self._replies: Iterator[Says] = iter(() if callable(self.model_says) else self.model_says)
        self._answers = iter(self.answers)
        self._prefix: list[int] = [0]

    def of_kind(self, kind: str) -> list[Entry]:
        return [entry for entry in self.journal if entry.kind == kind]

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
        sent = [Message("user", messages)] if isinstance(messages, str) else list(messages)

        async def ask() -> ModelReply:
            said = self.model_says(sent) if callable(self.model_says) else next(self._replies)
            if isinstance(said, AgentStepError):
                raise said
            return ModelReply(said) if isinstance(said, str) else said

        asked = {"messages": [asdict(message) for message in sent], "tools": [spec.name for spec in tools]}
        reply: ModelReply = await self._step("model", asked | {"max": max_tokens, "model": model}, ask)
        return reply

    async def tool(self, tool: ToolSpec | str, /, **arguments: Any) -> JSON:
        spec = get_tool(tool) if isinstance(tool, str) else tool

        async def call() -> JSON:
            if spec.name in self.tools:
                return self.tools[spec.name](**checked)
            return await self._really(spec, checked)

        try:
            checked = spec.validate(arguments)
        except ToolError as error:
            raise ToolFailed(spec.name, error.code, error.message) from error
        value: JSON = await self._step("tool", {"tool": spec.name, "arguments": checked}, call)
        return value

    async def ask(self, prompt: str, *, schema: Schema, timeout_seconds: float | None = None) -> Any:
        async def answer() -> Any:
            value = next(self._answers)
            if isinstance(value, AgentStepError):
                raise value
            if isinstance(schema, type) and issubclass(schema, BaseModel):
                return schema.model_validate_json(json.dumps(value))
            return value

        return await self._step("ask", {"prompt": prompt}, answer)

    async def sleep(self, seconds: float) -> None:
        await self._step("timer", {"seconds": seconds}, _nothing)

    async def gather(
        self, *branches: Coroutine[Any, Any, Any], limit: int | None = None, return_errors: bool = False
    ) -> list[Any]:
        self._prefix[-1] += 1
        results: list[Any] = []
        for number, branch in enumerate(branches, start=1):
            self._prefix += [number, 0]
            try:
                results.append(await branch)
            except AgentStepError as error:
                results.append(error)
            del self._prefix[-2:]
        if not return_errors:
            for result in results:
                if isinstance(result, AgentStepError):
                    raise result
        return results

    async def say(self, text: str, *, label: str | None = None) -> None:
        await self._step("text", {"text": text}, _nothing)

    async def artifact(self, name: str, content: str | bytes, *, content_type: str = "text/plain") -> str:
        async def store() -> str:
            return "art_" + name

        made: str = await self._step("artifact", {"name": name, "content": content}, store)
        return made

    async def set_title(self, title: str) -> None:
        await self._step("title", {"title": title}, _nothing)

    async def _step(self, kind: str, asked: Any, do: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        self._prefix[-1] += 1
        path = ".".join(map(str, self._prefix))
        text = json.dumps(asked, sort_keys=True, default=str)
        if (old := self._stored.get(path)) is not None:
            assert (old.kind, old.asked) == (kind, text), f"step {path} asks something else than before"
            result = _from_jsonb(old.result)
        else:
            try:
                result = await do()
            except AgentStepError as error:
                result = error
        self.journal.append(Entry(path, kind, text, result))
        if isinstance(result, AgentStepError):
            raise result
        return result

    async def _really(self, spec: ToolSpec, arguments: dict[str, JSON]) -> JSON:
        call = ToolCall(
            run_id=self.run_id,
            step_id="step_" + "2" * 32,
            tenant_id=self.tenant_id,
            user_id=self.user_id,
            operation_key="key",
            fence=1,
            permit=Permit("nonce", "key", 1, boottime() + 60),
            scope=Scope(),
            workspace=Path("/nonexistent"),
            settings={},
            processes=ProcessHost(),
            progress=_no_progress,
        )
        receipt = await spec.call(call, arguments)
        if receipt.outcome is not Outcome.SUCCEEDED:
            raise ToolFailed(spec.name, receipt.code or "failed", receipt.error or "")
        return receipt.value


def _from_jsonb(value: Any) -> Any:
    """Return a stored result as PostgreSQL gives it back: jsonb orders keys by length, then by letters."""
    if isinstance(value, dict):
        return {key: _from_jsonb(value[key]) for key in sorted(value, key=lambda key: (len(key), key))}
    if isinstance(value, list):
        return [_from_jsonb(item) for item in value]
    if isinstance(value, ModelReply):
        uses = tuple(replace(use, arguments=_from_jsonb(use.arguments)) for use in value.tool_uses)
        return replace(value, tool_uses=uses)
    return value


async def _nothing() -> None:
    return None


async def _no_progress(data: JSON) -> None:
    return None


async def walk_again_from_every_step(
    make: Callable[[Sequence[Entry]], ScriptedContext],
    walk: Callable[[RunContext], Coroutine[Any, Any, Any]],
) -> Any:
    """Walk once, then once more from each prefix of the journal: every walk must ask the same and return the same."""
    first = make(())
    result = await walk(first)
    for keep in range(len(first.journal) + 1):
        again = make(first.journal[:keep])
        assert await walk(again) == result
        assert [(e.path, e.kind, e.asked) for e in again.journal] == [(e.path, e.kind, e.asked) for e in first.journal]
    return result
