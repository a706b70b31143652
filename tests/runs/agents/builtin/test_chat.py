import pytest

from runs.agents import Message, ModelFailed
from runs.agents.builtin.chat import ChatRequest, chat
from tests.runs.agents.scripted_context import ScriptedContext


async def test_it_answers_once_with_the_callers_words() -> None:
    heard: list[Message] = []

    def say(messages: object) -> str:
        heard.extend(messages)  # type: ignore[arg-type]
        return "Because of Rayleigh."

    ctx = ScriptedContext(say)
    assert await chat(ctx, ChatRequest(prompt=" Why is the sky blue? ", system="Be short.")) == "Because of Rayleigh."
    assert heard == [Message("system", "Be short."), Message("user", "Why is the sky blue?")]
    assert [entry.kind for entry in ctx.journal] == ["model"]


async def test_a_wrong_key_is_a_failure_and_not_an_answer() -> None:
    with pytest.raises(ModelFailed, match="wrong key"):
        await chat(ScriptedContext([ModelFailed("auth", "wrong key")]), ChatRequest(prompt="hi"))
