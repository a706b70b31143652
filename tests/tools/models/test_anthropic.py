"""What is sent to Anthropic, and what only its format has."""

import pytest

from tests.tools.models.wire import (
    CLAUDE_TEXT_START,
    a_wire,
    claude,
    claude_end,
    claude_start,
    claude_text,
    collect,
    text_of,
)
from tools.models.anthropic import AnthropicProvider
from tools.models.protocol import Finished, Message, ModelError, ModelRequest, ToolUse

HELLO = ModelRequest(messages=(Message("system", "Be brief."), Message("user", "Hello")), max_tokens=33)


def provider(url: str, model: str = "claude-sonnet-4-6") -> AnthropicProvider:
    return AnthropicProvider(model=model, base_url=url, api_key="k")


async def test_system_text_limit_and_tool_loop_are_sent_in_the_format() -> None:
    loop = (
        *HELLO.messages,
        Message("assistant", "On it.", tool_calls=(ToolUse("c1", "send_mail", {"to": "anna"}),)),
        Message("tool", "sent", tool_call_id="c1"),
    )
    async with a_wire(claude_start(), CLAUDE_TEXT_START, claude_text("ok"), *claude_end()) as wire:
        await collect(provider(wire.url), ModelRequest(messages=loop, max_tokens=33))
    sent = wire.requests[0]
    assert "Be brief." in str(sent["system"])
    assert (sent["max_tokens"], sent["stream"]) == (33, True)
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user"]
    assert sent["messages"][2]["content"][0]["tool_use_id"] == "c1"


async def test_max_tokens_is_told_as_length() -> None:
    async with a_wire(claude_start(), CLAUDE_TEXT_START, claude_text("ok"), *claude_end("max_tokens")) as wire:
        finished = (await collect(provider(wire.url), HELLO))[-1]
    assert isinstance(finished, Finished)
    assert finished.stop_reason == "length"


async def test_overload_inside_an_open_stream_is_overloaded() -> None:
    error = claude("error", error={"type": "overloaded_error", "message": "Overloaded"})
    async with a_wire(claude_start(), CLAUDE_TEXT_START, claude_text("ok"), error) as wire:
        with pytest.raises(ModelError) as caught:
            await collect(provider(wire.url), HELLO)
    assert caught.value.code == "overloaded"


async def test_thoughts_are_not_part_of_the_text() -> None:
    thinking = claude(
        "content_block_start", index=0, content_block={"type": "thinking", "thinking": "", "signature": ""}
    )
    thought = claude("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "hm"})
    start = claude("content_block_start", index=1, content_block={"type": "text", "text": ""})
    async with a_wire(claude_start(), thinking, thought, start, claude_text("ok", 1), *claude_end()) as wire:
        assert text_of(await collect(provider(wire.url), HELLO)) == "ok"


@pytest.mark.parametrize("model", ["claude-sonnet-4-6", "claude-3-haiku-20240307"])
async def test_schema_is_asked_for_natively_or_in_the_prompt(model: str) -> None:
    schema = {"type": "object", "properties": {"forty_two": {"type": "integer"}}, "required": ["forty_two"]}
    async with a_wire(claude_start(), CLAUDE_TEXT_START, claude_text("{}"), *claude_end()) as wire:
        await collect(provider(wire.url, model), ModelRequest(messages=HELLO.messages, schema=schema))
    assert "forty_two" in str(wire.requests[0])
