"""One answer of the model, in a conversation. It ends when its page is gone, because nobody else waits for it."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from runs.agents import Message, RunContext, agent

MAX_TOKENS = 1024

Prompt = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)]
System = Annotated[str, StringConstraints(strip_whitespace=True, max_length=4_000)]


class ChatRequest(BaseModel):
    """What to answer, and how the model should behave."""

    model_config = ConfigDict(extra="forbid")
    prompt: Prompt = Field(description="What do you want to know?")
    system: System | None = Field(default=None, description="How the model should answer.")


@agent(
    "chat",
    on_disconnect="cancel",
    converses=True,
    description="One answer of the model. It stops when you leave the page.",
)
async def chat(ctx: RunContext, request: ChatRequest) -> str:
    """Answer once and return the text."""
    messages = [Message("system", request.system)] if request.system else []
    reply = await ctx.model([*messages, *ctx.history, Message("user", request.prompt)], max_tokens=MAX_TOKENS)
    return reply.text
