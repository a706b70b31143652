import json
import os
import shlex
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runs.agents.builtin.probe import ProbeRequest, run_probe
from tests.runs.agents.scripted_context import ScriptedContext
from tools.effects import JSON


def wait_until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "it did not become true in 60 s"
        time.sleep(0.01)


def child_of(path: Path) -> int:
    data = path.read_bytes() if path.exists() else b""
    return int(struct.unpack("dddd", data)[3]) if len(data) == 32 else 0


async def test_the_script_asks_for_what_the_request_says() -> None:
    ctx = ScriptedContext(["out"])
    request = ProbeRequest(key="k1", n=7, rate=20, hold_at=3, steps=2)
    assert (await run_probe(ctx, request)).characters == 3
    script = json.loads(ctx.of_kind("model")[0].asked)["messages"][0]["content"]
    assert json.loads(script) == {"scripted": {"key": "k1", "n": 7, "rate": 20.0, "pad": 0, "hold_at": 3}}
    assert [entry.kind for entry in ctx.journal] == ["text", "text", "model"]


async def test_a_no_ends_it_before_the_tool() -> None:
    ctx = ScriptedContext(answers=[{"approve": False}])
    result = await run_probe(ctx, ProbeRequest(key="k1", n=0, ask=True, tool="invoice"))
    assert result.approved is False
    assert ctx.of_kind("tool") == []


@pytest.mark.parametrize(("tool", "name"), [("invoice", "create_invoice"), ("mail", "send_mail")])
async def test_effects_carry_the_key(tool: str, name: str) -> None:
    seen: list[str] = []

    def effect(**arguments: JSON) -> JSON:
        seen.append(json.dumps(arguments))
        return {"id": 1}

    result = await run_probe(ScriptedContext(tools={name: effect}), ProbeRequest(key="k-1", n=0, tool=tool))  # type: ignore[arg-type]
    assert "k-1" in seen[0]
    assert result.tool == {"id": 1}


@pytest.mark.parametrize("mode", ["sleep", "stubborn", "setsid"])
async def test_the_child_writes_its_id_and_lives_on(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_TOK", str(tmp_path))
    (tmp_path / "k1").write_bytes(struct.pack("dddd", 1.0, 2.0, 3.0, 0.0))
    commands: list[str] = []

    def keep(**arguments: JSON) -> JSON:
        commands.append(str(arguments["command"]))
        return None

    await run_probe(ScriptedContext(tools={"run_command": keep}), ProbeRequest(key="k1", n=0, tool=mode))  # type: ignore[arg-type]
    assert shlex.split(commands[0])[0] == "exec"
    watch_child(commands[0], mode, tmp_path / "k1")


def watch_child(command: str, mode: str, probe: Path) -> None:
    shell = subprocess.Popen(["/bin/sh", "-c", command])
    pid = 0
    try:
        wait_until(lambda: child_of(probe))
        pid = child_of(probe)
        assert struct.unpack("dddd", probe.read_bytes())[:3] == (1.0, 2.0, 3.0)
        wait_until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
        assert (pid == shell.pid) == (mode != "setsid")
        assert (os.getsid(pid) == os.getsid(shell.pid)) == (mode != "setsid")
        ignored = int(Path(f"/proc/{pid}/status").read_text().split("SigIgn:")[1].split()[0], 16)
        assert bool(ignored & 1 << (signal.SIGTERM - 1)) == (mode == "stubborn")
    finally:
        shell.kill()
        shell.wait()
        if mode == "setsid" and pid:
            os.kill(pid, signal.SIGKILL)
