"""A scripted agent for tests and benchmarks; people do not see it in lists.

    steps  n trivial durable steps
    n, text, rate, pad, hold_at   what the scripted model streams; its progress stands in $BENCH_TOK/<key>
    shell  commands in a shell of its own, one after the other
    ask    a question to a person
    tool   sleep, stubborn (ignores TERM), setsid (a grandchild in a session of its own), stubborn_setsid (both): a
           command that never ends, whose process id stands in the probe file; invoice, mail: one outside effect

The probe file holds four doubles: start, time of the last delta, number of deltas, process id of the child.
"""

import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from runs.agents import Message, RunContext, agent
from runs.agents.builtin.approval import Approval
from tools.builtin import create_invoice, run_command, send_mail

CHILD_SECONDS = 3600
# Writes its id and becomes `sleep`. An ignored signal stays ignored across exec, so `stubborn` is a `sleep` too.
CHILD = """
import os, signal, struct, sys
path, mode = sys.argv[1:]
if mode.startswith("stubborn"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode.endswith("setsid"):
    if os.fork():
        os.execvp("sleep", ["sleep", "3600"])
    os.setsid()
    if os.fork():
        os._exit(0)
fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
os.ftruncate(fd, 32)
os.pwrite(fd, struct.pack("d", os.getpid()), 24)
os.close(fd)
os.execvp("sleep", ["sleep", "3600"])
"""

Count = Annotated[int, Field(ge=0, le=1_000_000)]


class ProbeRequest(BaseModel):
    """What the probe does, in the order of the module's table."""

    model_config = ConfigDict(extra="forbid")
    key: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$")]
    n: Count = 100
    rate: Annotated[float, Field(ge=0, le=100_000)] = 0
    pad: Count = 0
    tool: Literal["", "sleep", "stubborn", "setsid", "stubborn_setsid", "invoice", "mail"] = ""
    text: Annotated[str, Field(max_length=100_000)] | None = None
    hold_at: Count | None = None
    ask: bool = False
    steps: Annotated[int, Field(ge=0, le=5_000)] = 0
    shell: Annotated[list[str], Field(max_length=100)] = []

    @model_validator(mode="after")
    def _hold_needs_a_stream(self) -> "ProbeRequest":
        if self.hold_at is not None and self.text is None and self.hold_at >= self.n:
            raise ValueError("hold_at must be below n")
        return self


class ProbeResult(BaseModel):
    """What came of it. tool: the receipt's value; shell: (output, exit code) of each command."""

    characters: int = 0
    approved: bool | None = None
    tool: Any = None
    shell: list[tuple[str, int | None]] = []


async def run_probe(ctx: RunContext, request: ProbeRequest) -> ProbeResult:
    """Do what the request says. Everything that it asks is a step, so a second walk repeats nothing."""
    result = ProbeResult()
    for number in range(request.steps):
        await ctx.say(f"step {number}")
    if request.n or request.text is not None:
        reply = await ctx.model([Message("user", _script(request))], model="scripted", max_tokens=1_000_000)
        result.characters = len(reply.text)
    if request.shell:
        shell = await ctx.shell(title=request.key)
        for command in request.shell:
            done = await shell.run(command, timeout_seconds=CHILD_SECONDS)
            result.shell.append((done.output, done.exit_code))
    if request.ask:
        answer = await ctx.ask(f"Shall {request.key} go on?", schema=Approval)
        result.approved = answer.approve
        if not answer.approve:
            return result
    if request.tool == "invoice":
        result.tool = await ctx.tool(create_invoice, customer=request.key, cents=100)
    elif request.tool == "mail":
        result.tool = await ctx.tool(
            send_mail, to=[f"{request.key}@example.test"], subject=request.key, body="A mail of the probe."
        )
    elif request.tool:
        result.tool = await ctx.tool(run_command, command=_command(request), timeout_seconds=CHILD_SECONDS)
    return result


_HINT = "Does what a test tells it to."
agent("probe", listed=False, description=_HINT)(run_probe)
agent("probe_cancel", on_disconnect="cancel", listed=False, description=_HINT)(run_probe)


def _script(request: ProbeRequest) -> str:
    script: dict[str, Any] = {"key": request.key, "rate": request.rate, "pad": request.pad}
    script |= {"n": request.n} if request.text is None else {"text": request.text}
    if request.hold_at is not None:
        script["hold_at"] = request.hold_at
    return json.dumps({"scripted": script})


def _command(request: ProbeRequest) -> str:
    folder = os.environ.get("BENCH_TOK") or os.path.join(tempfile.gettempdir(), "bench-tok")
    path = str(Path(folder) / request.key)
    return shlex.join(["exec", sys.executable, "-I", "-S", "-c", CHILD, path, request.tool])
