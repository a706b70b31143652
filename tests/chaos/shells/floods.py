"""A program that never stops printing costs nobody anything: not memory, not another shell's echo, not Ctrl-C."""

import asyncio
import contextlib
import statistics
import time

import psutil

from tests.bench.shells import Ours
from tests.chaos.shells.proof import Found, Size
from tests.chaos.shells.seats import Shell, a_pilot, address_of, host_of, leave, open_shell
from tests.chaos.site import Site

MOST_GROWTH_MB = {"web": 12.0, "ward": 8.0, "host": 2.0, "screens": 48.0}  # of hundreds that went through them
PAUSE_SECONDS = 0.05
SHORT_GRACE = {"on_disconnect": {"grace_s": 600}}


def flood(site: Site, size: Size, *, watched: str) -> Found:
    """Show it with a viewer that is `reading`, `stalled`, or with `nobody`, also no pilot, at the shell."""
    return asyncio.run(_flood(site, size, watched))


async def _flood(site: Site, size: Size, watched: str) -> Found:
    shell, other = open_shell(site, **SHORT_GRACE), open_shell(site, **SHORT_GRACE)
    pilot, quiet = await a_pilot(shell), await a_pilot(other)
    viewer = None if watched == "nobody" else await Ours.opened(address_of(site), shell.id, "role=viewer")
    measured = _processes(site, shell)
    quiet.type(b"cat\r")
    await quiet.until(b"cat\r\n")
    pilot.type(b"yes\r")
    await pilot.until(b"y\r\ny\r\n")
    if viewer is not None and watched == "stalled":
        assert viewer.stream is not None
        viewer.stream.stop_reading()
    if watched == "nobody":
        await leave(pilot)
    found, echoes, memory = Found(), [], []
    began = time.monotonic()
    while (passed := time.monotonic() - began) < size.flood_seconds:
        echoes.append(await _echo(quiet))
        memory.append((passed, {name: process.memory_info().rss / 1e6 for name, process in measured.items()}))
        await asyncio.sleep(PAUSE_SECONDS)
    if watched == "nobody":
        pilot = await Ours.opened(address_of(site), shell.id, f"role=pilot&had={_generation(pilot)}")
    answered = await _interrupt(pilot)
    _judge(found, size, memory, echoes, answered)
    found.facts["output_mb"] = round(pilot.next / 1e6)
    await leave(pilot, quiet, *([viewer] if viewer else []))
    for one in (shell, other):
        one.end()
    return found


def _judge(
    found: Found, size: Size, memory: list[tuple[float, dict[str, float]]], echoes: list[float], answered: float
) -> None:
    before = next(each for passed, each in memory if passed >= size.mark_seconds)
    after = memory[-1][1]
    for name, most in MOST_GROWTH_MB.items():
        growth = after[name] - before[name]
        found.facts[f"{name}_mb"] = f"{before[name]:.0f}->{after[name]:.0f}"
        found.must(growth <= most, f"{name} grew by {growth:.1f} MB")
    echo = statistics.median(echoes)
    found.facts |= {"echo_ms": round(echo * 1e3, 2), "ctrl_c_ms": round(answered * 1e3, 1)}
    found.must(echo < size.most_echo, f"the echo of another shell took {echo * 1e3:.1f} ms")
    found.must(answered < size.most_ctrl_c, f"Ctrl-C was answered after {answered:.2f} s")


def _processes(site: Site, shell: Shell) -> dict[str, psutil.Process]:
    web, screens = (site.stack.the(marker) for marker in ("streaming.server", "screens/main.mjs"))
    return {"web": web, "ward": shell.ward(), "host": host_of(site), "screens": screens}


def _generation(pilot: Ours) -> object:
    return pilot.ready.result()["generation"]


async def _echo(term: Ours) -> float:
    term.forget()
    began = time.perf_counter()
    term.type(b"k")
    await term.until(b"k")
    return time.perf_counter() - began


async def _interrupt(pilot: Ours) -> float:
    """Press Ctrl-C and give the seconds until the prompt, which comes after all that was printed before it."""
    pilot.forget()
    began = time.perf_counter()
    pilot.type(b"\x03")
    with contextlib.suppress(TimeoutError):
        await pilot.until(b"READY> ")
    return time.perf_counter() - began
