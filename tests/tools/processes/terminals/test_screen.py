"""Asking for a terminal's screen: an answer, or none in time; never a wrong one."""

import asyncio
import json
import tempfile
from collections.abc import Iterator

import pytest

from tools.processes.terminals.screen import NoScreen, Screen, exact_screen


@pytest.fixture
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="t-") as name:
        yield name


async def answering(folder: str, answer: bytes) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert json.loads(await reader.readline()) == {"key": "shell_1"}
        writer.write(answer)
        writer.close()

    return await asyncio.start_unix_server(serve, folder + "/screens.sock")


async def test_a_screen_is_read_as_it_was_kept(folder: str) -> None:
    kept = {"offset": 7, "rows": 24, "cols": 80, "exact": True, "data": "\x1b[1mé", "tail": "GzE="}
    async with await answering(folder, json.dumps(kept).encode() + b"\n"):
        assert await exact_screen(folder, "shell_1") == Screen(7, 24, 80, "\x1b[1mé\x1b1".encode(), True)


@pytest.mark.parametrize("answer", [b"", b"\n", b"null\n", b'{"error":"unknown"}\n', b'{"offset":7}\n'])
async def test_without_a_whole_answer_there_is_no_screen(folder: str, answer: bytes) -> None:
    async with await answering(folder, answer):
        with pytest.raises(NoScreen):
            await exact_screen(folder, "shell_1")


async def test_without_a_keeper_there_is_no_screen(folder: str) -> None:
    with pytest.raises(NoScreen):
        await exact_screen(folder, "shell_1")
