"""run_command: what its receipt says about each way to end."""

import asyncio
import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.builders import Progress, a_call, a_host, a_marker, a_permit, living, wait_until
from tools import Outcome
from tools.builtin import run_command
from tools.builtin.command import PROGRESS_CHARACTERS
from tools.scope import CancelReason, Scope

NOBODY = (pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)


async def test_command_that_ends_by_itself_succeeded_whatever_its_exit_code(tmp_path: Path) -> None:
    async with a_host() as host:
        progress = Progress()
        call = a_call(workspace=tmp_path, processes=host, progress=progress)
        receipt = await run_command.call(call, {"command": "pwd; cat; exit 3", "stdin": "in"})
    assert (receipt.outcome, receipt.proof) == (Outcome.SUCCEEDED, "process tree empty")
    assert isinstance(receipt.value, dict)
    assert receipt.value["exit_code"] == 3
    assert receipt.value["stdout"] == f"{tmp_path}\nin"
    assert "".join(str(item["text"]) for item in progress if isinstance(item, dict)) == f"{tmp_path}\nin"


async def test_stop_is_a_refusal_with_proof_and_keeps_the_output(tmp_path: Path) -> None:
    marker = a_marker()
    async with a_host() as host:
        scope, progress = Scope(), Progress()
        call = a_call(workspace=tmp_path, processes=host, scope=scope, progress=progress)
        running = asyncio.ensure_future(run_command.call(call, {"command": f"echo up; setsid sleep {marker} & wait"}))
        await wait_until(lambda: progress)
        scope.cancel(CancelReason.USER)
        receipt = await running
        assert living(marker) == []
    assert (receipt.outcome, receipt.code, receipt.proof) == (Outcome.FAILED, "stopped", "process tree empty")
    assert isinstance(receipt.value, dict)
    assert receipt.value["stdout"] == "up\n"


async def test_time_over_is_told_from_a_stop(tmp_path: Path) -> None:
    async with a_host() as host:
        call = a_call(workspace=tmp_path, processes=host)
        receipt = await run_command.call(call, {"command": "sleep 60", "timeout_seconds": 0.1})
    assert (receipt.outcome, receipt.code) == (Outcome.FAILED, "timeout")


async def test_command_that_was_never_begun_left_no_trace(tmp_path: Path) -> None:
    async with a_host() as host:
        call = a_call(workspace=tmp_path, processes=host, permit=a_permit(seconds=0))
        receipt = await run_command.call(call, {"command": "touch began"})
        assert (receipt.outcome, receipt.code) == (Outcome.FAILED, "permit_expired")
        call = a_call(workspace=tmp_path / "absent", processes=host)
        receipt = await run_command.call(call, {"command": "touch began"})
        assert (receipt.outcome, receipt.code) == (Outcome.FAILED, "not_started")
    assert os.listdir(tmp_path) == []


async def test_flood_is_cut_with_a_visible_mark_and_the_true_count(tmp_path: Path) -> None:
    async with a_host() as host:
        progress = Progress()
        call = a_call(workspace=tmp_path, processes=host, progress=progress)
        receipt = await run_command.call(call, {"command": "yes | head -c 3000000"})
    assert isinstance(receipt.value, dict)
    assert str(receipt.value["stdout"]).endswith("\n[output cut: 65536 of 3000000 bytes kept]")
    assert receipt.value["stdout_bytes"] == 3_000_000
    shown = sum(len(str(item.get("text", ""))) for item in progress if isinstance(item, dict))
    assert shown == PROGRESS_CHARACTERS
    assert isinstance(progress[-1], dict)
    assert "note" in progress[-1]


async def test_secrets_of_the_worker_do_not_reach_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLIVE_SECRET", "hunter2")
    monkeypatch.setenv("SHOWN", "yes")
    async with a_host() as host:
        call = a_call(workspace=tmp_path, processes=host, settings={"COMMAND_ENV_ALLOW": "SHOWN, ABSENT"})
        receipt = await run_command.call(call, {"command": "env"})
    assert isinstance(receipt.value, dict)
    text = str(receipt.value["stdout"])
    assert "hunter2" not in text
    assert "SHOWN=yes\n" in text
    assert f"HOME={tmp_path}\n" in text
    assert f"PATH={os.environ['PATH']}\n" in text


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [("cat", 0, ""), ('python3 -c "input()"', 1, ""), ("read x; echo got:$x", 0, "got:\n")],
)
async def test_b55_a_command_that_reads_meets_the_end_at_once(
    tmp_path: Path, command: str, code: int, said: str
) -> None:
    async with a_host() as host:
        call = a_call(workspace=tmp_path, processes=host)
        receipt = await run_command.call(call, {"command": command, "timeout_seconds": 30.0})
    assert isinstance(receipt.value, dict)
    assert (receipt.value["exit_code"], receipt.value["stdout"]) == (code, said)


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A workspace of nobody's, and a file of ours beside it."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "secret").write_text("hunter2")
        (folder / "secret").chmod(0o600)
        (folder / "workspace").mkdir(mode=0o700)
        os.chown(folder / "workspace", *NOBODY)
        yield folder / "workspace"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_a_command_of_somebody_else_reads_nothing_of_ours_and_ends_with_all_it_began(theirs: Path) -> None:
    marker = a_marker()
    command = f"id -u; id -G; touch made; cat ../secret /proc/{os.getpid()}/environ; setsid sleep {marker} &"
    async with a_host() as host:
        call = a_call(workspace=theirs, processes=host, user=NOBODY)
        receipt = await run_command.call(call, {"command": command})
    assert isinstance(receipt.value, dict)
    assert receipt.value["stdout"] == f"{NOBODY[0]}\n{NOBODY[1]}\n"
    assert str(receipt.value["stderr"]).count("Permission denied") == 2
    assert theirs.joinpath("made").stat().st_uid == NOBODY[0]
    assert receipt.proof == "process tree empty"
    assert living(marker) == []
