"""What the runs of the crash matrix do: one kind of step, then one more, so that going on can be seen.

Two targets that Outlive's own tools never are: one that takes no key, so that a second request is a second effect.
"""

import json
import os
import time
from typing import Any, Literal
from uuid import uuid4

import httpx
from pydantic import BaseModel

from runs.agents import Message, RunContext, ToolFailed, agent
from tools import LookUp, LookUpCall, Outcome, OutcomeUnknown, Receipt, ToolCall, tool
from tools.builtin import create_invoice, run_command
from tools.trust import trust

REQUEST_SECONDS = 1.0
What = Literal[
    "model", "read", "idempotent", "checked", "plain", "command", "input", "stop", "block",
    "gather", "child", "timer", "retry", "shell",
]  # fmt: skip
NAP_SECONDS = 4.0  # longer than what a worker sleeps through (runs/execution/waiting_steps.py)
BLOCK_SECONDS = 12.0


class ChaosRequest(BaseModel):
    """What to do. hold: the model waits in the middle until the test lets it go on."""

    key: str
    what: What
    hold: bool = False


class Approval(BaseModel):
    """What a person answers."""

    approve: bool


async def look_up_effect(call: LookUpCall) -> LookUp:
    """Count what was done under the key."""
    async with httpx.AsyncClient(trust_env=False, timeout=REQUEST_SECONDS, verify=trust()) as client:
        answer = await client.get(f"{call.settings['TARGET_URL']}/effects", params={"prefix": call.operation_key})
    effects = answer.json()["effects"]
    if not effects:
        return LookUp(found=False, raw={"count": 0})
    receipt = Receipt(Outcome.SUCCEEDED, value=len(effects), proof="look-up", external_id=effects[0]["id"])
    return LookUp(found=True, receipt=receipt, raw={"count": len(effects)})


async def _write(call: ToolCall) -> Receipt:
    """Ask a target that knows no keys: ours is made unique for each request, and no fence is sent."""
    headers = {"Idempotency-Key": f"{call.operation_key}#{uuid4().hex}"}
    body = {"customer": "chaos", "amount_cents": 1}
    async with httpx.AsyncClient(trust_env=False, timeout=REQUEST_SECONDS, verify=trust()) as client:
        call.open()
        try:
            answer = await client.post(f"{call.settings['TARGET_URL']}/invoices", json=body, headers=headers)
        except httpx.HTTPError as error:
            raise OutcomeUnknown(repr(error)) from error
    if answer.status_code != 201:
        raise OutcomeUnknown(f"answered {answer.status_code}")
    return Receipt(Outcome.SUCCEEDED, value="sent", proof="http 201", external_id=answer.json()["id"])


@tool(
    effect="write", look_up=look_up_effect, timeout_seconds=5,
    request_timeout_seconds=REQUEST_SECONDS, target_bound_seconds=0.5,
)  # fmt: skip
async def checked_write(call: ToolCall, word: str) -> Receipt:
    """Write where it can be looked up."""
    return await _write(call)


@tool(effect="write", look_up=None, timeout_seconds=5, request_timeout_seconds=REQUEST_SECONDS)
async def plain_write(call: ToolCall, word: str) -> Receipt:
    """Write where nobody can look."""
    return await _write(call)


@tool(effect="read", timeout_seconds=10)
async def look_around(call: ToolCall, word: str) -> int:
    """Read."""
    async with httpx.AsyncClient(trust_env=False, timeout=10 * REQUEST_SECONDS, verify=trust()) as client:
        answer = await client.get(f"{call.settings['TARGET_URL']}/effects", params={"prefix": word})
    return len(answer.json()["effects"])


@agent("chaos", listed=False)
async def chaos(ctx: RunContext, request: ChaosRequest) -> str:
    """Do one thing, then say so."""
    came_to = await _do(ctx, request)
    await ctx.say(f"{request.what}: {came_to}")
    return came_to


async def _do(ctx: RunContext, request: ChaosRequest) -> str:
    match request.what:
        case "model":
            return await _talk(ctx, request)
        case "read":
            return str(await ctx.tool(look_around, word=request.key))
        case "idempotent":
            await ctx.tool(create_invoice, customer=request.key, cents=1)
        case "block":
            await ctx.tool(look_around, word=request.key)
            time.sleep(BLOCK_SECONDS)  # noqa: ASYNC251 - what an agent must not do: its loop stands still
            await ctx.tool(create_invoice, customer=request.key, cents=1)
        case "checked":
            await ctx.tool(checked_write, word=request.key)
        case "plain":
            await ctx.tool(plain_write, word=request.key)
        case "input":
            return str((await ctx.ask("Go on?", schema=Approval)).approve)
        case "gather":
            invoice = ctx.tool(create_invoice, customer=request.key, cents=1)
            _, said = await ctx.gather(invoice, _talk(ctx, request))
            return str(said)
        case "child":
            return str(await ctx.spawn("chaos", request.model_copy(update={"what": "gather"})))
        case "timer":
            await ctx.sleep(NAP_SECONDS)
        case "retry":
            await ctx.tool(create_invoice, customer=request.key, cents=1)
            if ctx.attempt == 1:
                raise RuntimeError("The first attempt fails.")
            return await _talk(ctx, request)
        case "shell":
            shell = await ctx.shell()
            done = await shell.run(_long(request), timeout_seconds=600)
            return f"exit {done.exit_code}: {done.output.strip()}"
        case "command" | "stop":
            try:
                ended: Any = await ctx.tool(run_command, command=_long(request), timeout_seconds=600)
                return f"exit {ended['exit_code']}, output {'lost' if ended.get('output_lost') else 'kept'}"
            except ToolFailed as error:
                return error.code
    return "done"


async def _talk(ctx: RunContext, request: ChaosRequest) -> str:
    script: dict[str, Any] = {"key": request.key, "n": 30} | ({"hold_at": 15} if request.hold else {})
    reply = await ctx.model([Message("user", json.dumps({"scripted": script}))], model="scripted")
    return f"{len(reply.text)} characters"


def _long(request: ChaosRequest) -> str:
    """A command that says when it has begun and ends once it may."""
    path = os.path.join(os.environ["BENCH_TOK"], request.key)
    return f"echo begun; touch {path}.begun; while [ ! -e {path}.release ]; do sleep 0.05; done; echo over"
