"""The screen keeper with real terminals, and the laws of its emulator (screens_law.mjs)."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.builders import wait_until
from tests.tools.processes.terminals.conftest import KEY, Terminals
from tools.processes.terminals.screen import NoScreen, Screen, exact_screen, last_text

NODE = shutil.which("node") or ""
MAIN = Path(__file__).parents[4] / "tools/processes/terminals/screens/main.mjs"
LAW = Path(__file__).with_name("screens_law.mjs")
pytestmark = pytest.mark.skipif(not NODE, reason="node is not on PATH: the screen keeper cannot run")


class Keeper:
    """The keeper's process on a folder; `start` again after `kill`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        (self.folder / "screens.sock").unlink(missing_ok=True)
        self.process = subprocess.Popen([NODE, str(MAIN), str(self.folder)], env={"PATH": os.environ["PATH"]})
        end = time.monotonic() + 30
        while not (self.folder / "screens.sock").exists():
            assert time.monotonic() < end, "The keeper did not start."
            time.sleep(0.02)

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait(60)


@pytest.fixture
def keeper(terminals: Terminals) -> Iterator[Keeper]:
    made = Keeper(terminals.folder)
    made.start()
    yield made
    made.kill()


async def screen_at(terminals: Terminals, offset: int) -> Screen:
    """Give the screen once it has seen the output up to there."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(NoScreen):
                screen = await exact_screen(str(terminals.folder), KEY)
                if screen.offset >= offset:
                    return screen
            await asyncio.sleep(0.05)


def law(*arguments: object) -> dict[str, int]:
    done = subprocess.run(
        [NODE, str(LAW), *map(str, arguments)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def test_a_snapshot_and_the_rest_show_what_was_seen_whole() -> None:
    counts = law("cuts", os.environ.get("OUTLIVE_EXAMPLES") or 7, 60)
    assert counts["exact"] > 0.9 * sum(counts.values()), counts


def test_leaving_out_what_scrolls_away_changes_nothing() -> None:
    counts = law("away", os.environ.get("OUTLIVE_EXAMPLES") or 7, 8)
    assert counts == {"exact": 8, "inexact": 0}


PROGRAMS = {
    "vim": "vim -u NONE -N --not-a-term file.txt",
    "less": "less file.txt",
    "top": "top -d 0.1 -n 5",
    "progress": (
        r"for i in $(seq 40); do printf '\r\033[32m%3d %%\033[0m [%-40s]' "
        r"$((i*100/40)) $(printf '#%.0s' $(seq $i)); done; echo"
    ),
}
KEYS = {"vim": "\x06\x06Gggdd:5\roadded 中文 🙂\x1b/word 77\r", "less": "  G/word 9\rg ", "top": "", "progress": ""}


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_real_program_may_be_left_and_found_at_any_byte(
    terminals: Terminals, tmp_path: Path, program: str
) -> None:
    """What a real program writes, cut at 60 places: a snapshot and the rest show what was seen whole."""
    command = PROGRAMS[program]
    if shutil.which(command.split()[0]) is None and program != "progress":
        pytest.skip(f"{program} is not on PATH")
    (tmp_path / "file.txt").write_text("".join(f"{n}: a line with word {n} and some more\n" for n in range(500)))
    await terminals.start("bash", "--norc", "--noprofile", "-c", f"{command}; echo THE-END; read", cwd=str(tmp_path))
    async with terminals.seat("pilot", generation=1) as pilot:
        for key in KEYS[program]:
            pilot.type(key)
            await pilot.until(lambda seat: seat.taken >= seat.typed)
        pilot.type({"vim": "\x1b:q!\r", "less": "q"}.get(program, ""))
        await pilot.sees("THE-END")
        recorded = tmp_path / "recorded"
        recorded.write_bytes(pilot.output)
    counts = law("file", recorded, 60)
    assert counts["exact"] > 0.9 * sum(counts.values()), counts


async def test_a_keeper_knows_the_screen_and_the_next_one_does_too(terminals: Terminals, keeper: Keeper) -> None:
    await terminals.start()
    async with terminals.seat("pilot", generation=1) as pilot:
        pilot.type("printf '\\033[31mRED\\033[0m'; echo; PS1='ready> '\r")
        await pilot.sees("\x1b[?2004hready> ")
        seen = pilot.begin + len(pilot.output)
        screen = await screen_at(terminals, seen)
        assert screen.is_exact
        assert b"31mRED" in screen.data
        kept = terminals.folder
        await wait_until(
            lambda: any(json.loads(f.read_text())["offset"] >= seen for f in kept.glob("*.screen")), seconds=30
        )
        keeper.kill()
        with pytest.raises(NoScreen):
            await exact_screen(str(terminals.folder), KEY)
        pilot.type("echo after\r")
        await pilot.sees("after\r\n")
        keeper.start()
        screen = await screen_at(terminals, pilot.begin + len(pilot.output))
        assert screen.is_exact
        assert b"31mRED" in screen.data
        assert b"after" in screen.data


async def test_what_was_missed_is_said_until_everything_is_reset(terminals: Terminals, keeper: Keeper) -> None:
    await terminals.start()
    keeper.kill()
    for kept in terminals.folder.glob("*.screen"):
        kept.unlink()
    async with terminals.seat("pilot", generation=1) as pilot:
        pilot.type("head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; echo FLOO''DED\r")
        await pilot.sees("FLOODED")
        keeper.start()
        assert not (await screen_at(terminals, pilot.begin + len(pilot.output))).is_exact
        pilot.type("printf '\\033c'; echo RES''ET\r")
        await pilot.sees("RESET")
        assert (await screen_at(terminals, pilot.begin + len(pilot.output))).is_exact


async def test_b20_a_character_that_comes_byte_by_byte_is_whole(terminals: Terminals, keeper: Keeper) -> None:
    family = "f09f91a9e2808df09f91a9e2808df09f91a7e2808df09f91a6"
    bytes_of_it = " ".join(f"'\\x{family[i : i + 2]}'" for i in range(0, len(family), 2))
    await terminals.start(
        "bash", "--norc", "--noprofile", "-c", f"for b in {bytes_of_it}; do printf $b; sleep 0.02; done; read"
    )
    async with terminals.seat("viewer", **{"from": 0}) as viewer:
        await viewer.until(lambda seat: len(seat.output) >= 25)
        screen = await screen_at(terminals, 25)
    assert bytes.fromhex(family).decode() in screen.data.decode()


async def test_a_program_gets_no_answer_from_the_keeper(terminals: Terminals, keeper: Keeper) -> None:
    await terminals.start(
        "bash", "--norc", "-c", r"printf '\033[c\033[6n\033]11;?\007'; read -t 1 x; printf 'got:%s:' $x; read"
    )
    async with terminals.seat("viewer", **{"from": 0}) as viewer:
        await viewer.sees("got::")
        await screen_at(terminals, len(viewer.output))


async def test_the_last_screen_of_a_terminal_that_has_ended_is_kept(terminals: Terminals, keeper: Keeper) -> None:
    await terminals.start("bash", "--norc", "-c", "echo the last words; sleep 0.5")
    async with terminals.seat("viewer", **{"from": 0}) as viewer:
        await viewer.to_end()
    await wait_until(lambda: not list(terminals.wards()), seconds=30)
    assert "the last words" in await last_text(str(terminals.folder), KEY)
    assert b"the last words" in (await exact_screen(str(terminals.folder), KEY)).data


async def test_a_screen_has_the_size_of_its_terminal(terminals: Terminals, keeper: Keeper) -> None:
    await terminals.start()
    async with terminals.seat("pilot", generation=1) as pilot:
        await pilot.sees("$ ")
        pilot.terminal.resize(31, 97)
        await pilot.news_of("rows")
        pilot.type("stty size\r")
        await pilot.sees("31 97")
        screen = await screen_at(terminals, pilot.begin + len(pilot.output))
        assert (screen.rows, screen.cols) == (31, 97)


async def test_what_the_emulator_cannot_bear_costs_its_terminal_a_screen_and_nobody_else(
    terminals: Terminals, keeper: Keeper
) -> None:
    await terminals.start()
    await terminals.start("bash", "--norc", "-c", "echo the neighbour; read", key="other")
    async with terminals.seat("pilot", generation=1) as pilot:
        pilot.type("stty cols 80; printf '\\033[24;1H%080d\\033[1J' 0; echo; echo th''ere\r")
        await pilot.sees("there")
        await screen_at(terminals, pilot.begin + len(pilot.output))
        pilot.type("echo af''ter\r")
        await pilot.sees("after")
        screen = await screen_at(terminals, pilot.begin + len(pilot.output))
        assert not screen.is_exact
        assert b"after" in screen.data
    assert "the neighbour" in await last_text(str(terminals.folder), "other")
    assert keeper.process
    assert keeper.process.poll() is None
