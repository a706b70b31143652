"""The tool run_command: a shell command in the run's workspace, under a warden."""

import codecs
from typing import Annotated

from pydantic import Field

from tools.call import ToolCall
from tools.effects import JSON, Effect, Outcome, Receipt
from tools.errors import ToolError
from tools.processes.environment import build_environment
from tools.processes.output import OnOutput
from tools.processes.results import CommandNotStarted, ProcessResult
from tools.scope import boottime
from tools.tool import tool

LONGEST_SECONDS = 3600.0
OUTPUT_BYTES = 64 * 1024
PROGRESS_CHARACTERS = 256 * 1024
PIECE_CHARACTERS = 5_000  # of one event: a larger one would be shown by its beginning only, also when all is escaped
TERM_GRACE_SECONDS = 3.0


@tool(effect=Effect.WRITE, look_up=None, timeout_seconds=LONGEST_SECONDS, process=True)
async def run_command(
    call: ToolCall,
    command: Annotated[str, Field(min_length=1, max_length=100_000, description="Passed to sh -c.")],
    stdin: Annotated[str, Field(max_length=1_000_000)] = "",
    timeout_seconds: Annotated[float, Field(gt=0, le=LONGEST_SECONDS)] = 60.0,
) -> Receipt:
    """Run a shell command in the workspace and return its exit code and output. What it starts ends with it."""
    deadline = min(boottime() + timeout_seconds, boottime() + call.remaining())
    call.open()
    try:
        result = await call.processes.run(
            ["/bin/sh", "-c", command],
            key=call.process_key,
            cwd=call.workspace,
            env=build_environment(call.settings, home=call.workspace),
            scope=call.scope,
            term_grace_seconds=TERM_GRACE_SECONDS,
            output_limit_bytes=OUTPUT_BYTES,
            stdin=stdin.encode(),
            on_output=_show(call),
            deadline=deadline,
            keeps_proof=True,
            user=call.user,
        )
    except CommandNotStarted as error:
        raise ToolError(str(error), code="not_started") from error
    return _receipt(call, result)


def _show(call: ToolCall) -> OnOutput:
    """Return a listener that passes output on as progress, up to a limit that the page can bear."""
    left = PROGRESS_CHARACTERS

    async def show(stream: str, text: str) -> None:
        nonlocal left
        if left <= 0:
            return
        text = text[:left]
        left -= len(text)
        for at in range(0, len(text), PIECE_CHARACTERS):
            await call.progress({"stream": stream, "text": text[at : at + PIECE_CHARACTERS]})
        if left <= 0:
            await call.progress({"note": "More output follows; it is counted, but not shown live."})

    return show


def _receipt(call: ToolCall, result: ProcessResult) -> Receipt:
    value: dict[str, JSON] = {
        "exit_code": result.exit_code,
        "signal": result.signal,
        # Before the output: who is shown the beginning of a long receipt learns how long it was.
        "stdout_bytes": result.stdout_bytes,
        "stderr_bytes": result.stderr_bytes,
        "truncated": result.truncated,
        "stdout": _text(result.stdout, result.stdout_bytes),
        "stderr": _text(result.stderr, result.stderr_bytes),
    }
    if not result.proof.gone:
        error = "The process tree is not proven gone; it may still be running."
        return Receipt(Outcome.UNKNOWN, value=value, proof="no proof", error=error, code="tree_not_proven")
    proof = "process tree empty" if result.proof.contained else "process group empty"
    if result.ended_by_itself:
        return Receipt(Outcome.SUCCEEDED, value=value, proof=proof)
    if call.scope.reason is None and result.proof.cause != "lease":
        return Receipt(Outcome.FAILED, value=value, proof=proof, error="The command ran out of time.", code="timeout")
    reason = "lease" if call.scope.reason is None else call.scope.reason.value
    return Receipt(
        Outcome.FAILED, value=value, proof=proof, error=f"The command was stopped ({reason}).", code="stopped"
    )


def _text(kept: bytes, total: int) -> str:
    """Decode what was kept and say aloud what was not. The cut may fall into a character; that piece is dropped."""
    if total <= len(kept):
        return kept.decode(errors="replace")
    whole = codecs.getincrementaldecoder("utf-8")(errors="replace").decode(kept)
    return f"{whole}\n[output cut: {len(kept)} of {total} bytes kept]"
