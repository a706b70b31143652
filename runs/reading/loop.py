"""Reading over any number of connections, one after the other; how a connection is made is the caller's."""

import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any

from runs.reading.errors import Cut
from runs.reading.items import Item
from runs.reading.machine import Reading

type Frames = Generator[Any]  # closing it closes its connection
type OnCut = Callable[[str, float], None]


def read_on(
    reading: Reading,
    connect: Callable[[], Frames],
    *,
    on_cut: OnCut = lambda reason, wait_seconds: None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Generator[Item]:
    """Yield each item once, in order, until the stream has ended; the cursor moves when the next one is asked for.

    Args: connect: gives the frames of one connection from `reading.cursor` on, or raises Cut; on_cut(reason, seconds):
    the connection is gone, the next one comes after a wait. Raises: StreamError.
    """
    while not reading.is_over:
        reading.begin()
        cut = Cut("the server closed the stream")
        try:
            with closing(connect()) as frames:
                for frame in frames:
                    for item in reading.take(frame):
                        yield item
                        reading.applied(item)
                    if reading.is_closed:
                        break
        except Cut as error:
            cut = error
        if not reading.is_over:
            wait_seconds = reading.lost(str(cut), now=clock(), retry_after=cut.retry_after)
            on_cut(str(cut), wait_seconds)
            sleep(wait_seconds)
