"""What is sent to OpenAI-compatible servers."""

import pytest

from tests.tools.models.wire import OPENAI_END, a_wire, chunk, collect, text_of
from tools.models.openai_compatible import OpenAICompatibleProvider
from tools.models.protocol import Finished, Message, ModelError, ModelRequest, ToolUse

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOL_LOOP = (
    Message("user", "Mail Anna"),
    Message("assistant", "", tool_calls=(ToolUse("c1", "send_mail", {"to": "anna"}),)),
    Message("tool", "sent", tool_call_id="c1"),
)


@pytest.mark.parametrize("name", ["openai", "ollama", "vllm"])
async def test_each_kind_streams_with_its_own_url_and_name(name: str) -> None:
    async with a_wire(chunk({"content": "Hi"}), *OPENAI_END) as wire:
        provider = OpenAICompatibleProvider(name=name, model="m-1", base_url=f"{wire.url}/v1", api_key=None)
        items = await collect(provider, ModelRequest(messages=(Message("user", "Hello"),), max_tokens=33))
    assert text_of(items) == "Hi"
    assert items[-1] == Finished("stop", "chatcmpl-1", name, "stub-1")
    sent = wire.requests[0]
    assert (sent["model"], sent["stream"], sent["temperature"]) == ("m-1", True, 0.0)
    assert 33 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))


async def test_key_is_never_taken_from_the_environment_for_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    async with a_wire(chunk({"content": "Hi"}), *OPENAI_END) as wire:
        provider = OpenAICompatibleProvider(name="ollama", model="m-1", base_url=f"{wire.url}/v1", api_key=None)
        await collect(provider, ModelRequest(messages=(Message("user", "Hello"),)))
    assert "sk-of-openai" not in wire.request_headers[0]["authorization"]


async def test_tool_loop_schema_and_seed_are_sent_in_the_format() -> None:
    async with a_wire(chunk({"content": '{"n": 1}'}), *OPENAI_END) as wire:
        provider = OpenAICompatibleProvider(name="openai", model="gpt-4o", base_url=f"{wire.url}/v1", api_key="k")
        await collect(provider, ModelRequest(messages=TOOL_LOOP, schema=SCHEMA, seed=5))
    sent = wire.requests[0]
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool"]
    assert sent["messages"][1]["tool_calls"][0]["id"] == sent["messages"][2]["tool_call_id"] == "c1"
    assert sent["response_format"]["json_schema"]["schema"]["properties"] == SCHEMA["properties"]
    assert sent["seed"] == 5


async def test_model_that_thinks_gets_no_temperature() -> None:
    async with a_wire(chunk({"content": "Hi"}), *OPENAI_END) as wire:
        provider = OpenAICompatibleProvider(name="openai", model="gpt-5", base_url=f"{wire.url}/v1", api_key="k")
        await collect(provider, ModelRequest(messages=(Message("user", "Hello"),)))
    assert "temperature" not in wire.requests[0]


async def test_error_inside_an_open_stream_is_an_error() -> None:
    error = b'data: {"error": {"message": "busy", "type": "server_error", "code": "overloaded"}}\n\n'
    async with a_wire(chunk({"content": "Hi"}), error) as wire:
        provider = OpenAICompatibleProvider(name="openai", model="gpt-4o", base_url=f"{wire.url}/v1", api_key="k")
        with pytest.raises(ModelError) as caught:
            await collect(provider, ModelRequest(messages=(Message("user", "Hello"),)))
    assert caught.value.code == "overloaded"


async def test_arguments_that_are_no_json_object_are_an_error() -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "x", "arguments": '{"a": '}}
    async with a_wire(chunk({"tool_calls": [call]}), chunk({}, finish="length"), *OPENAI_END[1:]) as wire:
        provider = OpenAICompatibleProvider(name="openai", model="gpt-4o", base_url=f"{wire.url}/v1", api_key="k")
        with pytest.raises(ModelError, match="arguments for x"):
            await collect(provider, ModelRequest(messages=(Message("user", "Hello"),)))


async def test_tool_result_without_its_call_is_refused_before_anything_is_sent() -> None:
    async with a_wire(*OPENAI_END) as wire:
        provider = OpenAICompatibleProvider(name="openai", model="gpt-4o", base_url=f"{wire.url}/v1", api_key="k")
        with pytest.raises(ModelError) as caught:
            await collect(provider, ModelRequest(messages=TOOL_LOOP[2:]))
    assert caught.value.code == "bad_request"
    assert wire.requests == []


async def test_quota_that_is_spent_is_not_retryable() -> None:
    body = (
        b'{"error": {"message": "You exceeded your quota", "type": "insufficient_quota", "code": "insufficient_quota"}}'
    )
    async with a_wire(body, status=429) as wire:
        provider = OpenAICompatibleProvider(name="openai", model="gpt-4o", base_url=f"{wire.url}/v1", api_key="k")
        with pytest.raises(ModelError) as caught:
            await collect(provider, ModelRequest(messages=(Message("user", "Hello"),)))
    assert (caught.value.code, caught.value.retryable) == ("rate_limited", False)
