"""The exact screen of a terminal, as the screen keeper of this machine has painted it.

FOLDER/screens.sock: one line of JSON with the terminal's key, one line of JSON as the answer (screens/main.mjs). Where
no keeper answers in time there is no screen, and whoever asked shows what the terminal still keeps of its output.
"""

import asyncio
import base64
import contextlib
import json
import os
from dataclasses import dataclass
from typing import Any

ANSWER_SECONDS = 2.0
MOST_BYTES = 8 << 20  # of an answer


class NoScreen(Exception):
    """Nobody on this machine keeps a screen of this terminal, or not in time."""


@dataclass(frozen=True, slots=True)
class Screen:
    """What paints a terminal as it stood at `offset` of its output; is_exact: the keeper saw every byte before that.

    data is for a fresh terminal of that size, all at once; it may end within a sequence, which the output goes on with.
    """

    offset: int
    rows: int
    cols: int
    data: bytes
    is_exact: bool


async def exact_screen(folder: str, key: str) -> Screen:
    """Ask for the screen of a terminal, or the last one of a terminal that ended within a day. Raises: NoScreen."""
    found = await _ask(folder, {"key": key})
    try:
        data = found["data"].encode() + base64.b64decode(found["tail"])
        return Screen(int(found["offset"]), int(found["rows"]), int(found["cols"]), data, bool(found["exact"]))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise NoScreen(f"There is no screen of {key}.") from error


async def last_text(folder: str, key: str) -> str:
    """Ask for the same as plain lines, without colours and without what has scrolled away. Raises: NoScreen."""
    text = (await _ask(folder, {"key": key, "plain": True})).get("text")
    if not isinstance(text, str):
        raise NoScreen(f"There is no screen of {key}.")
    return text


async def _ask(folder: str, request: dict[str, Any]) -> dict[str, Any]:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = json.loads(await _exchange(os.path.join(folder, "screens.sock"), request))
    except (OSError, ValueError) as error:
        raise NoScreen(f"There is no screen of {request['key']}.") from error
    if not isinstance(answer, dict):
        raise NoScreen(f"There is no screen of {request['key']}.")
    return answer


async def _exchange(path: str, request: dict[str, Any]) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path, limit=MOST_BYTES)
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        return await reader.readline()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
