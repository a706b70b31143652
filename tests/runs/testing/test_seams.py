"""A crash happens once; a hold holds until it is let go."""

import asyncio

import pytest

from runs.testing.seams import Crash, Hold


async def test_only_the_first_claim_dies() -> None:
    deaths: list[int] = []
    crash = Crash("lease_held", lambda: deaths.append(1))
    assert not crash.happened
    await crash.hook()
    await crash.hook()
    assert (deaths, crash.happened) == ([1], True)


async def test_a_hold_says_when_it_is_reached_and_lets_go() -> None:
    hold = Hold("before_model")
    with pytest.raises(AssertionError, match="before_model"):
        hold.wait_reached(0.01)
    waiting = asyncio.ensure_future(hold.hook())
    await asyncio.to_thread(hold.wait_reached)
    assert not waiting.done()
    hold.release()
    await waiting
