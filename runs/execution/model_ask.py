"""What an agent asks a model, and how the reply is stored and read back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError

from runs.agents.context import ModelReply, Schema
from runs.agents.errors import ModelFailed
from runs.execution.earlier import StoredStep
from runs.execution.history import in_order
from runs.states import StepState
from tools.models.protocol import Message, ToolUse
from tools.spec import ToolSpec


@dataclass(frozen=True, slots=True)
class ModelAsk:
    """What the agent asks a model."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    schema: Schema | None = None
    max_tokens: int = 512
    temperature: float = 0.0
    seed: int | None = None
    model: str | None = None
    label: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def json_schema(self) -> dict[str, Any] | None:
        if self.schema is None:
            return None
        return self.schema.model_json_schema() if isinstance(self.schema, type) else dict(self.schema)

    def known_by(self) -> dict[str, Any]:
        """Return what makes this ask the same ask on the next walk; the provider behind it may change."""
        return {
            "messages": [_plain(message) for message in self.messages],
            "tools": [tool.name for tool in self.tools],
            "schema": self.json_schema,
            "max_tokens": self.max_tokens,
            "model": self.model,
        }

    def stored(self) -> dict[str, Any]:
        """Return what the step's row keeps; the messages of a long conversation would make it grow without end."""
        asked = {"model": self.model, "max_tokens": self.max_tokens, "messages": len(self.messages)}
        return asked | ({"tools": [tool.name for tool in self.tools]} if self.tools else {})


def as_messages(messages: str | Sequence[Message]) -> tuple[Message, ...]:
    """Read what an agent may pass: one user message as plain text, or messages."""
    return (Message("user", messages),) if isinstance(messages, str) else tuple(messages)


def read_messages(said: Sequence[Mapping[str, Any]] | None) -> tuple[Message, ...]:
    """Read the history that is stored with a run (runs.conversation_history)."""
    return tuple(
        Message(
            one["role"],
            one["content"],
            tool_calls=tuple(ToolUse(c["id"], c["name"], in_order(c["arguments"])) for c in one.get("tool_calls", ())),
            tool_call_id=one.get("tool_call_id"),
        )
        for one in said or ()
    )


def read_value(schema: Schema | None, text: str) -> Any:
    """Return the JSON that a schema asked for. Raises: ModelFailed("bad_answer")."""
    if schema is None:
        return None
    try:
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            return schema.model_validate_json(text).model_dump(mode="json", by_alias=True)
        return json.loads(text)
    except (ValidationError, ValueError) as error:
        raise ModelFailed("bad_answer", f"The model's answer does not fit the schema: {str(error)[:300]}") from error


def as_stored(reply: ModelReply) -> dict[str, Any]:
    """Return what the step's row keeps of a reply."""
    return {
        "text": reply.text,
        "tool_uses": [_plain_use(use) for use in reply.tool_uses],
        "stop_reason": reply.stop_reason,
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
    }


def replay(stored: StoredStep, ask: ModelAsk) -> ModelReply:
    """Return what the settled step brought. Raises: ModelFailed where it brought that."""
    if stored.state is StepState.FAILED:
        error = stored.error
        raise ModelFailed(error["code"], error["message"], retryable=bool(error.get("retryable")))
    value = stored.value
    uses = tuple(ToolUse(u["id"], u["name"], u["arguments"]) for u in value["tool_uses"])
    return ModelReply(
        text=value["text"],
        tool_uses=uses,
        stop_reason=value["stop_reason"],
        value=None if uses else read_value(ask.schema, value["text"]),
        input_tokens=value["input_tokens"],
        output_tokens=value["output_tokens"],
    )


def _plain(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        plain["tool_calls"] = [_plain_use(use) for use in message.tool_calls]
    if message.tool_call_id:
        plain["tool_call_id"] = message.tool_call_id
    return plain


def _plain_use(use: ToolUse) -> dict[str, Any]:
    return {"id": use.id, "name": use.name, "arguments": use.arguments}
