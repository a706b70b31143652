"""The file tools as an agent calls them."""

import os
from pathlib import Path

from tests.tools.builders import a_call, a_permit
from tools import Outcome
from tools.builtin import read_file, write_file


async def test_written_file_is_read_back(tmp_path: Path) -> None:
    receipt = await write_file.call(a_call(workspace=tmp_path), {"path": "notes/a.txt", "content": "h\u00e9"})
    assert (receipt.outcome, receipt.value) == (Outcome.SUCCEEDED, {"path": "notes/a.txt", "bytes": 3})
    read = await read_file.call(a_call(workspace=tmp_path), {"path": "notes/a.txt"})
    assert read.value == {"path": "notes/a.txt", "text": "h\u00e9", "bytes": 3, "truncated": False}


async def test_void_permit_writes_nothing(tmp_path: Path) -> None:
    call = a_call(workspace=tmp_path, permit=a_permit(seconds=0))
    receipt = await write_file.call(call, {"path": "a", "content": "x"})
    assert (receipt.outcome, receipt.code) == (Outcome.FAILED, "permit_expired")
    assert os.listdir(tmp_path) == []


async def test_refused_path_is_a_refusal_for_certain(tmp_path: Path) -> None:
    receipt = await write_file.call(a_call(workspace=tmp_path), {"path": "../a", "content": "x"})
    assert (receipt.outcome, receipt.code) == (Outcome.FAILED, "path_refused")
