"""What authors of agents import. Needs no Django until the built-in agents are loaded.

from runs.agents import RunContext, agent

@agent("greeter")
async def greeter(ctx: RunContext, request: Greeting) -> str:
    reply = await ctx.model(f"Greet {request.name} in one sentence.")
    return reply.text
"""

from runs.agents.context import ModelReply, RunContext
from runs.agents.errors import AgentStepError, InputTimeout, ModelFailed, ToolFailed
from runs.agents.registry import agent
from runs.agents.shell import CommandEnd, Shell
from tools.models.protocol import Message

__all__ = [
    "AgentStepError",
    "CommandEnd",
    "InputTimeout",
    "Message",
    "ModelFailed",
    "ModelReply",
    "RunContext",
    "Shell",
    "ToolFailed",
    "agent",
]
