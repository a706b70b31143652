"""The kit against the whole installation: every case with every client. CONFORMANCE=all: over every transport too."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import pytest

from streaming.client.line import Transport
from tests.conformance.every_byte import cut_everywhere
from tests.conformance.play import Combination, combinations, hurried, play, read_cases, sample
from tests.conformance.readers import Name
from tests.conformance.site import Server
from tests.stack import LiveStack

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(3600)]
IS_WHOLE = os.environ.get("CONFORMANCE") == "all"
CASES = [case for case in read_cases() if IS_WHOLE or not case.is_slow]
PLAYS = combinations(CASES) if IS_WHOLE else sample(CASES)
EACH_BYTE = 1 if IS_WHOLE else 797

type Result = Callable[[Combination], None]


@pytest.fixture(scope="module")
def server(stack: LiveStack) -> Iterator[Server]:
    with closing(Server(stack.base_url, stack.token)) as opened:
        yield opened


@pytest.fixture(scope="module")
def result(stack: LiveStack) -> Iterator[Result]:
    """Let four plays at once go on from the first test on; each test waits for its own."""

    def run(chosen: Combination) -> None:
        with closing(Server(stack.base_url, stack.token)) as server:
            play(server, chosen)

    with hurried(), ThreadPoolExecutor(4) as threads:
        futures: dict[Combination, Future[None]] = {}
        has_begun: list[bool] = []

        def of(chosen: Combination) -> None:
            if not has_begun:
                has_begun.append(True)
                futures.update({one: threads.submit(run, one) for one in PLAYS})
            (futures.pop(chosen, None) or threads.submit(run, chosen)).result()  # a second try plays it anew

        yield of
        for future in futures.values():
            future.cancel()


@pytest.mark.parametrize("chosen", PLAYS, ids=str)
def test_a_case_holds(result: Result, chosen: Combination) -> None:
    result(chosen)


@pytest.mark.parametrize("transport", ["websocket", "sse", "pages"])
@pytest.mark.parametrize("reader", ["sync", "async"])
def test_a_cut_at_any_byte_loses_and_doubles_nothing(server: Server, reader: Name, transport: Transport) -> None:
    places, problems = cut_everywhere(server, reader, transport, step=EACH_BYTE)
    assert places > 5
    assert problems == []
