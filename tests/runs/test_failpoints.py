"""Failpoints: free when unset, loud when misspelt."""

import asyncio
from pathlib import Path

import pytest

from runs import failpoints


async def test_an_armed_seam_runs_its_hook_and_only_inside_the_block() -> None:
    passed: list[str] = []

    async def hook() -> None:
        passed.append("hook")

    await failpoints.hit("before_model")
    with failpoints.armed("before_model", hook):
        await failpoints.hit("before_model")
        await failpoints.hit("before_settle")
    await failpoints.hit("before_model")
    assert passed == ["hook"]


async def test_wait_says_that_it_was_reached_and_goes_on_when_the_file_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failpoints, "_hooks", {})
    file = tmp_path / "go"
    failpoints.arm_from_environment({"OUTLIVE_FAILPOINTS": f"lease_held=wait:{file}"})
    waiting = asyncio.ensure_future(failpoints.hit("lease_held"))
    async with asyncio.timeout(60):
        while not (tmp_path / "go.reached").exists():  # noqa: ASYNC110 - another process would look so too
            await asyncio.sleep(0.005)
    assert not waiting.done()
    file.touch()
    await asyncio.wait_for(waiting, 60)


async def test_a_folder_arms_a_seam_while_processes_run_and_one_pass_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failpoints, "_hooks", {})
    failpoints.arm_from_environment({"OUTLIVE_FAILPOINTS": f"at:{tmp_path}"})
    await failpoints.hit("before_model")
    (tmp_path / "before_model").write_text(f"wait:{tmp_path / 'go'}")
    await failpoints.hit("before_dispatch")
    waiting = asyncio.ensure_future(failpoints.hit("before_model"))
    async with asyncio.timeout(60):
        while not (tmp_path / "go.reached").exists():  # noqa: ASYNC110 - another process would look so too
            await asyncio.sleep(0.005)
    await failpoints.hit("before_model")
    assert not waiting.done()
    (tmp_path / "go").touch()
    await asyncio.wait_for(waiting, 60)


@pytest.mark.parametrize("text", ["before_modle=kill", "before_model=explode", "before_model=wait:", "before_model"])
def test_a_mistake_stops_the_process(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoints, "_hooks", {})
    with pytest.raises(ValueError, match="before_mod"):
        failpoints.arm_from_environment({"OUTLIVE_FAILPOINTS": text})
