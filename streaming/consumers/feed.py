"""The feed, /ws/v1/runs/: which runs of the reader's tenant have changed, for the run list.

A message names runs and versions, never their content; the page reloads the rows that it shows. It is a hint with a
polled net below it: there is no cursor, and a client that comes back reloads its list.
"""

import logging
from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID

from runs.ids import text_id
from streaming import protocol
from streaming.consumers.socket import BUSY, ClientFrame, Socket
from streaming.hub import CROWDED, DATABASE_ERRORS, DRAIN, Hub, TooManyStreams
from streaming.protocol import HEARTBEAT_SECONDS, Control
from streaming.reader import DONE, Reader
from streaming.wires import size_of

logger = logging.getLogger(__name__)


async def feed_socket(scope: Any, receive: Any, send: Any) -> None:
    """Serve one connection from its handshake to its close."""
    socket = Socket(scope, receive, send)
    opened = await socket.open(None)
    if opened is None:
        return
    hub, admitted = opened

    def take(frame: ClientFrame) -> None:
        """Nothing depends on what this client says."""

    await socket.serve(follow_feed(hub, admitted.actor.tenant.pk, socket.reader), take)


async def follow_feed(hub: Hub, tenant_id: UUID, reader: Reader) -> AsyncGenerator[Any, None]:
    """Give `ready`, then `run.changed` frames, until the reader ends; at last `closing`."""
    feed = None
    try:
        feed = await hub.join_feed(tenant_id, reader)
        if hub.is_draining:
            reader.end(DRAIN)
        yield reader.wire.control(Control("ready", {"v": 1, "heartbeat_s": HEARTBEAT_SECONDS}))
        while reader.ending is None:
            frames = [
                Control("run.changed", {"run": text_id("run", run_id), "version": version})
                for run_id, version in feed.take(reader).items()
            ]
            if reader.wants_beat:
                reader.wants_beat = False
                frames.append(Control("heartbeat", {}))
            if not frames:
                await reader.wait()
            for frame in frames:
                message = reader.wire.control(frame)
                reader.sending_since = hub.now()
                hub.sending.begin(reader, size_of(message))
                yield message
                hub.sending.end(reader)
                reader.sending_since = None
    except TooManyStreams:
        reader.end(CROWDED)
    except DATABASE_ERRORS as error:
        logger.warning("feed.database_away", extra={"error": repr(error)})
        reader.end(BUSY)
    finally:
        hub.sending.end(reader)
        if feed is not None:
            hub.leave(feed, reader)
    ending = reader.ending or DONE
    yield reader.wire.control(protocol.closing(ending.code, ending.reason, retry_after=ending.retry_after))
