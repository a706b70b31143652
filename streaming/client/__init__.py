"""A client for other programs: follow a run over any cut of the connection. It knows no Django.

    from streaming.client import Client, Event

    with Client("https://outlive.example", token) as client:
        for item in client.follow("run_…", after=cursor):
            if isinstance(item, Event):
                print(item.seq, item.type, item.data)

`ShellLine` is a shell, to watch and to type into (runs/reading/shell_line.py).

`AsyncClient` is the same for asyncio. What is given out is an Event (each once, in order), a Gap (why the events after
the cursor cannot be given) or a Snapshot (the view in their place). It ends when the stream has ended, or with a
StreamError. The rules are those of runs/reading; docs/PROTOCOL.md is normative.
"""

from runs.reading.errors import (
    BadProtocol,
    Forbidden,
    NotSignedIn,
    StreamError,
    StreamLost,
    StreamRefused,
    UnknownRun,
)
from runs.reading.items import Event, Gap, Snapshot
from runs.reading.shell_line import ShellFrame, ShellLine, ShellOutput
from streaming.client.asynchronous import AsyncClient, AsyncFollowing
from streaming.client.synchronous import Client, Following

__all__ = [
    "AsyncClient", "AsyncFollowing", "BadProtocol", "Client", "Event", "Following", "Forbidden", "Gap", "NotSignedIn",
    "ShellFrame", "ShellLine", "ShellOutput", "Snapshot", "StreamError", "StreamLost", "StreamRefused", "UnknownRun",
]  # fmt: skip
