"""Names of models, and which one is used when nobody names one."""

import pytest

from tools.models.choose import default_model, provider_for
from tools.models.protocol import ModelError


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, "local"),
        ({"OUTLIVE_MODEL": "scripted", "OPENAI_API_KEY": "k"}, "scripted"),
        ({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "openai:"),
        ({"ANTHROPIC_API_KEY": "k"}, "anthropic:"),
        ({"OPENAI_API_KEY": ""}, "local"),
    ],
)
def test_default_model_follows_the_keys_that_are_there(env: dict[str, str], expected: str) -> None:
    assert default_model(env).startswith(expected)


@pytest.mark.parametrize(
    ("model", "name", "has_tools"),
    [
        ("local", "local", False),
        ("scripted", "scripted", True),
        ("openai:gpt-5.2", "openai", True),
        ("anthropic:claude-sonnet-4-6", "anthropic", True),
        ("ollama:qwen3:8b", "ollama", True),
        ("vllm:org/model", "vllm", True),
    ],
)
def test_each_known_name_gives_its_provider(model: str, name: str, has_tools: bool) -> None:
    provider = provider_for(model, {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"})
    assert (provider.name, provider.supports_tools) == (name, has_tools)


@pytest.mark.parametrize("model", ["", "gpt-4", "openai:", "local:x", "nobody:m"])
def test_unknown_name_is_refused_with_the_list_of_known_ones(model: str) -> None:
    with pytest.raises(ModelError, match=r"openai:<model>") as caught:
        provider_for(model, {"OPENAI_API_KEY": "k"})
    assert caught.value.code == "bad_request"


@pytest.mark.parametrize("model", ["openai:gpt-5.2", "anthropic:claude-sonnet-4-6"])
def test_missing_key_is_told_at_once_by_its_variable(model: str) -> None:
    with pytest.raises(ModelError, match="_API_KEY is not set") as caught:
        provider_for(model, {})
    assert (caught.value.code, caught.value.retryable) == ("auth", False)


def test_gateway_with_a_url_of_its_own_needs_no_key() -> None:
    assert provider_for("openai:m", {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}).name == "openai"
