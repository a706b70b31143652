"""Real terminals under their wards: people come and go, owners are lost and found, and nothing is left over."""

import asyncio
import contextlib
import hashlib
import os
import signal
import time

import psutil
import pytest

from tests.tools.builders import a_marker, living, wait_until
from tests.tools.processes.terminals.conftest import KEY, Terminals
from tools.processes.proofs import load_proof
from tools.processes.results import CommandNotStarted
from tools.processes.terminals import frames
from tools.processes.terminals.link import NoHost, Refused
from tools.scope import boottime


async def test_somebody_types_and_everybody_sees_it(terminals: Terminals) -> None:
    await terminals.start()
    async with terminals.seat("viewer") as watching, terminals.seat("pilot", generation=1) as pilot:
        pilot.type("echo re''ady; echo $COLUMNS\r")
        for seat in (pilot, watching):
            await seat.sees("ready\r\n80\r\n")
        await pilot.until(lambda seat: seat.taken == seat.typed)


async def test_a_reattach_goes_on_at_its_offset(terminals: Terminals) -> None:
    await terminals.start()
    async with terminals.seat("pilot", generation=1) as first:
        first.type("X=1; echo on''e\r")
        await first.sees("one\r\n")
    end = first.begin + len(first.output)
    async with terminals.seat("viewer", **{"from": end}) as second:
        async with terminals.seat("pilot", generation=2) as pilot:
            pilot.type("echo t$X''wo\r")
            await second.sees("t1wo\r\n")
        assert second.begin == end


async def test_input_that_is_sent_again_goes_in_once(terminals: Terminals) -> None:
    """What a client cannot know after a cut: whether its last keys arrived."""
    await terminals.start()
    async with terminals.seat("pilot", generation=1) as pilot:
        pilot.type("echo on''ce\r")
        pilot.terminal.type(0, b"echo on''ce\r")
        pilot.typed = 12
        pilot.type("echo do''ne\r")
        await pilot.sees("done\r\n")
        assert pilot.output.count(b"once\r\n") == 1
        pilot.terminal.type(1000, b"lost")
        assert (await pilot.news_of("taken"))["input"] == "gap"


async def test_a_paste_of_a_hundred_kilobytes_arrives_whole(terminals: Terminals) -> None:
    """B45: many lines, more than the terminal takes at once."""
    line = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-\n"
    paste = (line * 1600).encode()
    await terminals.start()
    async with terminals.seat("pilot", generation=1) as pilot:
        pilot.type("stty -echo; echo REA''DY; head -c 102400 | sha256sum\r")
        await pilot.sees("READY")
        pilot.type(paste)
        await pilot.sees(hashlib.sha256(paste).hexdigest())


async def test_one_pilot_types_and_the_one_before_only_watches(terminals: Terminals) -> None:
    """B48: the loser is told, and nothing of what it types or sizes has an effect."""
    await terminals.start()
    async with terminals.seat("pilot", generation=1) as old, terminals.seat("pilot", generation=2) as new:
        assert await old.news_of("pilot") == {"pilot": 2}
        old.type("echo ol''d\r")
        old.terminal.resize(10, 20)
        await old.terminal.drain()
        async with terminals.seat("viewer"):  # greeted after what was said before
            pass
        new.terminal.resize(50, 132)
        assert (await new.news_of("rows")).items() >= {"rows": 50, "cols": 132}.items()
        new.type("stty size; echo ne''w\r")
        await new.sees("new\r\n")
        assert b"50 132" in new.output
        sized_at = (await old.news_of("rows"))["at"]
        async with terminals.seat("viewer") as late:
            assert late.terminal.welcome["sized_at"] == sized_at < late.terminal.welcome["end"]
        assert b"old\r\n" not in new.output
        with pytest.raises(Refused, match="generation"):
            async with terminals.seat("pilot", generation=2):
                pass


async def test_input_that_comes_after_its_time_does_not_go_in(terminals: Terminals) -> None:
    """H5: a web process that froze between its check and the send passes nothing stale on."""
    await terminals.start()
    async with terminals.seat("pilot", generation=1) as pilot:
        pilot.terminal.type(0, b"echo sta''le\r", void_at=boottime() - 0.001)
        assert await pilot.news_of("input") == {"input": "void", "taken": 0}
        pilot.type("echo fre''sh\r")
        await pilot.sees("fresh\r\n")
        assert b"stale\r\n" not in pilot.output


async def test_what_a_displaced_pilot_had_waiting_is_not_typed_and_the_numbers_go_on(terminals: Terminals) -> None:
    """B48: its successor's input follows on what has gone in; a pilot that comes back knows what to repeat."""
    await terminals.start("bash", "-c", "stty raw -echo; echo READY; sleep 1000")
    async with terminals.seat("pilot", generation=1) as old:
        await old.sees("READY")
        old.type(b"x" * 200_000)  # more than a terminal takes from nobody who reads
        await old.until(lambda seat: seat.taken > 0)
        async with terminals.seat("pilot", generation=5) as new:
            assert new.terminal.welcome["before"] == 1
            assert 0 < new.terminal.welcome["taken"] < 200_000
            assert new.terminal.welcome["taken"] >= old.taken


async def test_without_an_owner_it_ends_after_its_time_and_leaves_the_proof(terminals: Terminals) -> None:
    marker = a_marker()
    await terminals.start("bash", "-c", f"setsid sleep {marker} & sleep {marker}", adopt_seconds=0.5)
    await wait_until(lambda: not living(marker) and load_proof(str(terminals.folder), KEY))
    proof = load_proof(str(terminals.folder), KEY)
    assert proof is not None
    assert (proof["gone"], proof["cause"]) == (True, "worker")
    await wait_until(lambda: not terminals.wards())
    with pytest.raises(NoHost):
        async with terminals.seat("viewer"):
            pass


async def test_an_owner_keeps_it_and_a_higher_fence_takes_it_over(terminals: Terminals) -> None:
    await terminals.start(adopt_seconds=30)
    async with terminals.seat("owner", fence=3) as first:
        with pytest.raises(Refused, match="fence"):
            async with terminals.seat("owner", fence=3):
                pass
        async with terminals.seat("owner", fence=4) as second:
            assert await first.news_of("displaced") == {"displaced": 4}
            first.terminal.command(stop=0)
            async with terminals.seat("pilot", generation=1) as pilot:  # greeted after that
                pilot.type("echo al''ive\r")
                await pilot.sees("alive\r\n")
            second.terminal.resize(11, 22)
            assert (await second.news_of("rows")).items() >= {"rows": 11, "cols": 22}.items()
            assert not [n for n in second.news if "gone" in n]


async def test_a_terminal_with_an_owner_is_not_alone(terminals: Terminals) -> None:
    """It outlives one that was begun later, has as much time, and no owner."""
    await terminals.start(adopt_seconds=0.5)
    async with terminals.seat("owner", fence=1), terminals.seat("pilot", generation=1) as pilot:
        await terminals.start(key="alone", adopt_seconds=0.5)
        await wait_until(lambda: load_proof(str(terminals.folder), "alone"))
        pilot.type("echo al''ive\r")
        await pilot.sees("alive\r\n")


async def test_an_owner_whose_lease_ends_is_nobody_any_more(terminals: Terminals) -> None:
    """It may be frozen. The terminal lives on for the next one."""
    await terminals.start(adopt_seconds=30)
    async with terminals.seat("owner", fence=1) as frozen:
        frozen.terminal.command(until=boottime() + 0.3)
        await frozen.to_end()
    async with terminals.seat("owner", fence=2) as next_one:
        assert next_one.terminal.welcome["pid"] > 0


@pytest.mark.parametrize(
    "script",
    [
        "trap '' TERM INT HUP; (trap '' TERM HUP; exec sleep {m}) & while :; do sleep 1; done",
        "setsid sleep {m} & sleep {m}",
        "( ( setsid sh -c 'exec sleep {m}' & ) & ) ; sleep {m}",
    ],
)
async def test_a_stop_leaves_no_descendant(terminals: Terminals, script: str) -> None:
    """B42, B43: in a terminal. The proof comes after the last of them."""
    marker = a_marker()
    await terminals.start("bash", "-c", script.format(m=marker))
    await wait_until(lambda: living(marker))
    async with terminals.seat("owner", fence=1) as owner:
        owner.terminal.command(stop=0.3)
        proof = await owner.news_of("gone")
        assert not living(marker)
        assert proof["cause"] == "stop"
        owner.terminal.command(stored=True)
        await owner.to_end()
    assert load_proof(str(terminals.folder), KEY) is None
    await wait_until(lambda: not terminals.wards())


async def test_after_a_stop_no_input_goes_in(terminals: Terminals) -> None:
    await terminals.start("bash", "-c", "trap '' HUP TERM; read -r line; echo got:$line; sleep 1000")
    async with terminals.seat("owner", fence=1) as owner, terminals.seat("pilot", generation=1) as pilot:
        owner.terminal.command(shut_input=True)
        owner.terminal.resize(9, 9)
        await owner.news_of("rows")
        pilot.type("rm -rf /\r")
        assert await pilot.news_of("input") == {"input": "shut"}
        owner.terminal.command(stop=0)
        await owner.news_of("gone")
        assert b"got:" not in owner.output


async def test_the_end_of_a_program_comes_after_its_last_byte(terminals: Terminals) -> None:
    """B56: a program that prints and ends at once loses no tail."""
    for number in range(20):
        key = f"run_{number}/x"
        await terminals.start("python3", "-c", "import sys;sys.stdout.write('hello'*4096)", key=key)
        async with terminals.seat("owner", key=key, fence=1) as owner:
            told = await owner.news_of("exit")
            assert (told["exit"], told["by_itself"], told["end"]) == (0, True, 20_480)
            await owner.until(lambda seat: len(seat.output) == 20_480)
            assert owner.output == b"hello" * 4096


async def test_whoever_reads_late_is_told_what_they_miss_and_slows_nobody(terminals: Terminals) -> None:
    """B44, B46: 14 MB of numbers, a viewer that reads nothing until the end, and one that sees every byte."""
    await terminals.start("bash", "-c", "read -r go; seq 1 2000000; echo over; read -r end")
    async with (
        terminals.seat("viewer") as late,
        terminals.seat("screen") as screen,
        terminals.seat("pilot", generation=1) as pilot,
    ):
        pilot.type("go\r")
        with contextlib.suppress(TimeoutError):  # the program waits for the screen, which has read nothing yet
            while True:
                async with asyncio.timeout(1.0):
                    pilot.take(await anext(pilot.terminal))
        assert pilot.begin + len(pilot.output) < 4 << 20
        digest, seen = hashlib.sha256(), 0
        while True:
            await screen.until(lambda seat: len(seat.output) > 65536 or b"over\r\n" in seat.output)
            digest.update(screen.output)
            seen, is_over = seen + len(screen.output), b"over\r\n" in screen.output
            screen.begin, screen.output = screen.begin + len(screen.output), b""
            if is_over:
                break
        numbers = "".join(f"{n}\r\n" for n in range(1, 2_000_001))
        assert digest.hexdigest() == hashlib.sha256(f"go\r\n{numbers}over\r\n".encode()).hexdigest()
        assert screen.skipped == []
        await late.sees("over\r\n")
        assert late.skipped
        assert late.begin + len(late.output) == seen
        (ward,) = terminals.wards()
        assert ward.memory_info().rss < 60 << 20


async def test_ctrl_c_in_a_flood_is_heard_at_once(terminals: Terminals) -> None:
    await terminals.start()
    async with terminals.seat("pilot", generation=1) as pilot:
        pilot.type("yes\r")
        await pilot.until(lambda seat: len(seat.output) > 1 << 20)
        pilot.type(b"\x03")
        pilot.type("echo BA''CK\r")
        began = time.monotonic()
        await pilot.until(lambda seat: b"BACK\r\n" in seat.output[-100_000:])
        assert time.monotonic() - began < 10  # a second where nobody else is at work


async def test_a_killed_host_ends_no_terminal_and_the_next_one_starts_more(terminals: Terminals) -> None:
    await terminals.start(adopt_seconds=30)
    async with terminals.seat("pilot", generation=1) as pilot, terminals.seat("owner", fence=1) as owner:
        terminals.process.kill()
        terminals.process.wait()
        pilot.type("echo al''ive\r")
        await pilot.sees("alive\r\n")
        with pytest.raises(NoHost):
            await terminals.start(key="other")
        owner.terminal.command(stop=0)
        await owner.news_of("gone")
        owner.terminal.command(stored=True)
        await owner.to_end()


async def test_the_end_of_the_host_ends_them_all(terminals: Terminals) -> None:
    marker = a_marker()
    for number in range(3):
        await terminals.start("bash", "-c", f"trap '' HUP TERM; sleep {marker}", key=f"k{number}", grace_seconds=0.2)
    await wait_until(lambda: len(living(marker)) == 3)
    wards = terminals.wards()
    terminals.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(terminals.process.wait, 20) == 0
    assert not living(marker)
    assert not [ward for ward in wards if psutil.pid_exists(ward.pid)]


async def test_a_key_has_one_terminal_and_a_bad_program_is_said(terminals: Terminals) -> None:
    await terminals.start()
    with pytest.raises(CommandNotStarted, match="is running"):
        await terminals.start()
    with pytest.raises(CommandNotStarted, match="No such file"):
        await terminals.start("/no/such/program", key="other")
    async with terminals.seat("viewer") as seat:
        assert seat.terminal.welcome["pid"] > 0


async def test_a_stranger_without_manners_is_sent_away(terminals: Terminals) -> None:
    await terminals.start()
    (path,) = [name for name in os.listdir(terminals.folder) if name.endswith(".sock") and name != "host.sock"]
    unasked = frames.pack_json(frames.COMMAND, {"role": "viewer"})
    for words in (
        unasked,
        b"GET / HTTP/1.1\r\n\r\n",
        b"I\x00\x00\x00\x00",
        b"H\x02\x00\x00\x00[]",
        b"H\xff\xff\xff\xff",
    ):
        reader, writer = await asyncio.open_unix_connection(str(terminals.folder / path))
        writer.write(words)
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
    async with terminals.seat("pilot", generation=1) as pilot:
        pilot.type("echo we''ll\r")
        await pilot.sees("well\r\n")
