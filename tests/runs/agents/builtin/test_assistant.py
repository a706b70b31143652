import json
from collections.abc import Sequence
from typing import Any

import pytest

from runs.agents import InputTimeout, Message, ModelReply, ToolFailed
from runs.agents.builtin.assistant import MAX_CALLS_PER_TURN, TOOLS, AssistantRequest, assistant
from tests.runs.agents.scripted_context import Entry, ScriptedContext, walk_again_from_every_step
from tools.effects import JSON, Effect
from tools.models.protocol import ToolUse

MAIL = {"to": ["a@example.test"], "subject": "Hello", "body": "A ferry."}


def use(name: str, number: int = 1, /, **arguments: Any) -> ToolUse:
    return ToolUse(f"call_{number}", name, arguments)


def turn(*uses: ToolUse, text: str = "") -> ModelReply:
    return ModelReply(text, uses, "tool_call")


class Sent:
    """A tool that keeps what it was called with."""

    def __init__(self, value: JSON = "done") -> None:
        self.calls: list[dict[str, JSON]] = []
        self.value = value

    def __call__(self, **arguments: JSON) -> JSON:
        self.calls.append(arguments)
        return self.value


def last_tool_message(ctx: ScriptedContext) -> str:
    return str(json.loads(ctx.of_kind("model")[-1].asked)["messages"][-1]["content"])


async def test_it_uses_a_tool_and_answers() -> None:
    read = Sent({"text": "The ferry leaves at nine."})
    ctx = ScriptedContext([turn(use("read_file", path="plan.txt")), "At nine."], {"read_file": read})
    assert await assistant(ctx, AssistantRequest(prompt="When does it leave?")) == "At nine."
    assert read.calls == [{"path": "plan.txt"}]
    assert "The ferry leaves at nine." in last_tool_message(ctx)


async def test_reading_needs_no_approval_and_every_other_effect_does() -> None:
    reads = {name for name, spec in TOOLS.items() if spec.effect is Effect.READ}
    assert reads == {"search_documents", "read_document", "fetch_url", "read_file"}


async def test_what_was_approved_is_what_is_sent() -> None:
    send = Sent()
    ctx = ScriptedContext([turn(use("send_mail", **MAIL)), "Sent."], {"send_mail": send}, [{"approve": True}])
    await assistant(ctx, AssistantRequest(prompt="Mail it.", tools=["send_mail"]))
    prompt = json.loads(ctx.of_kind("ask")[0].asked)["prompt"]
    shown = json.loads(prompt[prompt.index("{") : prompt.rindex("}") + 1])
    assert shown == send.calls[0] == MAIL
    assert [entry.kind for entry in ctx.journal] == ["model", "ask", "tool", "model"]


async def test_a_no_is_told_to_the_model_and_nothing_is_sent() -> None:
    send = Sent()
    ctx = ScriptedContext(
        [turn(use("send_mail", **MAIL)), "Not sent."], {"send_mail": send}, [{"approve": False, "note": "wrong person"}]
    )
    assert await assistant(ctx, AssistantRequest(prompt="Mail it.", tools=["send_mail"])) == "Not sent."
    assert send.calls == []
    assert "wrong person" in last_tool_message(ctx)


async def test_nobody_answering_is_no_approval() -> None:
    send = Sent()
    ctx = ScriptedContext([turn(use("send_mail", **MAIL))], {"send_mail": send}, [InputTimeout("q_1", "May it?")])
    with pytest.raises(InputTimeout):
        await assistant(ctx, AssistantRequest(prompt="Mail it.", tools=["send_mail"]))
    assert send.calls == []


async def test_auto_approve_asks_nobody() -> None:
    send = Sent()
    ctx = ScriptedContext([turn(use("send_mail", **MAIL)), "Sent."], {"send_mail": send})
    await assistant(ctx, AssistantRequest(prompt="Mail it.", tools=["send_mail"], auto_approve=True))
    assert len(send.calls) == 1
    assert ctx.of_kind("ask") == []


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (use("launch_rocket"), "unknown_tool"),
        (use("create_invoice", customer="ACME", cents=1), "unknown_tool"),  # exists, but was not given
        (use("send_mail", to="a@example.test", subject="x", body="y"), "tool_arguments_invalid"),
        (use("send_mail", **MAIL, bcc="everybody"), "tool_arguments_invalid"),
    ],
)
async def test_a_call_that_cannot_be_made_asks_nobody_and_is_told_to_the_model(call: ToolUse, code: str) -> None:
    ctx = ScriptedContext([turn(call), "Sorry."])
    assert await assistant(ctx, AssistantRequest(prompt="Do it.", tools=["send_mail"])) == "Sorry."
    assert code in last_tool_message(ctx)
    assert [entry.kind for entry in ctx.journal] == ["model", "model"]


async def test_a_failed_tool_is_told_to_the_model() -> None:
    def fail(**_: JSON) -> JSON:
        raise ToolFailed("read_file", "no_such_file", "There is no plan.txt.")

    ctx = ScriptedContext([turn(use("read_file", path="plan.txt")), "It is not there."], {"read_file": fail})
    assert await assistant(ctx, AssistantRequest(prompt="Read.")) == "It is not there."
    assert "no_such_file" in last_tool_message(ctx)


async def test_a_model_that_repeats_itself_has_to_answer() -> None:
    read = Sent("text")
    asked: list[bool] = []

    def parrot(messages: Sequence[Message]) -> ModelReply | str:
        asked.append(True)
        return "Enough." if len(asked) == 4 else turn(use("read_file", len(asked), path="plan.txt"))

    ctx = ScriptedContext(parrot, {"read_file": read})
    assert await assistant(ctx, AssistantRequest(prompt="Read.", max_turns=20)) == "Enough."
    assert len(read.calls) == 1
    assert [json.loads(e.asked)["tools"] == [] for e in ctx.of_kind("model")] == [False, False, False, True]


async def test_turns_and_calls_in_a_turn_are_bounded() -> None:
    read = Sent("text")
    numbers = iter(range(1000))

    def many(messages: Sequence[Message]) -> ModelReply:
        return turn(*(use("read_file", n, path=f"{n}.txt") for n in (next(numbers) for _ in range(20))), text="More.")

    ctx = ScriptedContext(many, {"read_file": read})
    assert await assistant(ctx, AssistantRequest(prompt="Read all.", max_turns=3)) == "More."
    assert len(ctx.of_kind("model")) == 4
    assert len(read.calls) == 3 * MAX_CALLS_PER_TURN


async def test_without_tools_it_just_answers() -> None:
    ctx = ScriptedContext(["Hello."])
    assert await assistant(ctx, AssistantRequest(prompt="Hi", tools=[])) == "Hello."


async def test_it_can_be_walked_again_from_every_step() -> None:
    def talk(messages: Sequence[Message]) -> ModelReply | str:
        said: list[ModelReply | str] = [
            turn(use("read_file", path="a.txt")),
            turn(use("send_mail", 2, **MAIL)),
            "Sent.",
        ]
        return said[sum(message.role == "assistant" for message in messages)]

    def make(stored: Sequence[Entry]) -> ScriptedContext:
        asked = any(entry.kind == "ask" for entry in stored)
        tools = {"send_mail": Sent(), "read_file": Sent({"truncated": False, "text": "hi", "path": "a.txt"})}
        return ScriptedContext(talk, tools, [] if asked else [{"approve": True}], stored=stored)

    request = AssistantRequest(prompt="Mail it.", tools=["send_mail", "read_file"])
    assert await walk_again_from_every_step(make, lambda ctx: assistant(ctx, request)) == "Sent."
