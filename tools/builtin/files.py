"""The tools read_file and write_file: the run's workspace, nothing else."""

import asyncio
from typing import Annotated

from pydantic import Field

from tools.builtin.workspace import read_limited, write_whole
from tools.call import ToolCall
from tools.effects import JSON, Effect, Outcome, Receipt
from tools.tool import tool

READ_BYTES = 256 * 1024
WRITE_CHARACTERS = 2_000_000

FilePath = Annotated[str, Field(min_length=1, max_length=1024, description="Path below the workspace.")]


@tool(effect=Effect.READ, timeout_seconds=20)
async def read_file(call: ToolCall, path: FilePath) -> dict[str, JSON]:
    """Read a text file of the workspace (the first 256 KiB of it)."""
    call.open()
    content, size = await asyncio.to_thread(read_limited, call.workspace, path, READ_BYTES)
    return {
        "path": path,
        "text": content.decode(errors="replace"),
        "bytes": size,
        "truncated": size > len(content),
    }


@tool(effect=Effect.IDEMPOTENT, timeout_seconds=20)
async def write_file(
    call: ToolCall, path: FilePath, content: Annotated[str, Field(max_length=WRITE_CHARACTERS)]
) -> Receipt:
    """Write a text file in the workspace; a file that is there is replaced as a whole."""
    encoded = content.encode()
    call.open()
    await asyncio.to_thread(write_whole, call.workspace, path, encoded)
    return Receipt(Outcome.SUCCEEDED, value={"path": path, "bytes": len(encoded)}, proof="file in place")
