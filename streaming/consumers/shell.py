"""The shell socket, /ws/v1/shells/<id>/: the bytes of one terminal, and for its pilot a control connection."""

import logging
from typing import Any
from uuid import UUID

from django.conf import settings

from runs.errors import Busy
from runs.ids import BadId, parse_id, text_id
from runs.models import Run
from streaming.access import NOBODYS, UNKNOWN_SHELL, Admitted, admit_to_shell
from streaming.consumers.socket import BAD_PROTOCOL, BUSY, FAILED, Socket
from streaming.hub import CROWDED, DATABASE_ERRORS, DRAIN, Hub, TooManyStreams
from streaming.shells.door import Door
from streaming.shells.pilot import Pilot
from streaming.shells.session import Session

logger = logging.getLogger(__name__)


async def shell_socket(scope: Any, receive: Any, send: Any) -> None:
    """Serve one connection from its handshake to its close.

    Query: from=<offset of the next output byte>, role=pilot|viewer, had=<the generation that the client had before>.
    """
    socket = Socket(scope, receive, send)
    try:
        shell_id = parse_id("shell", scope["url_route"]["kwargs"]["shell_id"])
    except BadId:
        shell_id = NOBODYS  # no shell has it: the answer is that of one that does not exist
    opened = await socket.open(shell_id, by=admit_to_shell)
    if opened is None:
        return
    hub, admitted = opened
    if admitted.run is None:
        await socket.close(UNKNOWN_SHELL)
        return
    try:
        begin, had = _number(socket, "from"), _number(socket, "had")
    except ValueError:
        await socket.close(BAD_PROTOCOL)
        return
    await _serve(socket, hub, admitted, admitted.run, shell_id, begin, had)


async def _serve(
    socket: Socket, hub: Hub, admitted: Admitted, run: Run, shell_id: UUID, begin: int | None, had: int | None
) -> None:
    reader = socket.reader
    try:
        stream = await hub.join_stream(run.pk, run.stream_id, reader)
    except TooManyStreams:
        await socket.close(CROWDED)
        return
    session: Session | None = None
    try:
        stream.watchers.add(reader)
        if hub.is_draining:
            reader.end(DRAIN)
        door = Door(socket, hub, admitted.actor, text_id("shell", shell_id))
        session = Session(door, hub, stream, shell_id=shell_id, folder=str(settings.TERMINALS), begin=begin, had=had)
        if admitted.may_pilot:
            reader.who = admitted.in_control
            session.pilot = Pilot(hub.db, run.pk, admitted.who.user_id, on_lost=session.on_lost)
            if socket.query.get("role") == "pilot":
                await session.pilot.come(had)
        await session.serve()
    except* (*DATABASE_ERRORS, Busy) as errors:
        logger.warning("shell.database_away", extra={"error": repr(errors.exceptions)})
        reader.end(BUSY)
    except* Exception as errors:
        logger.error("shell.failed", exc_info=errors)
        reader.ending = FAILED
    finally:
        hub.sending.end(reader)
        stream.watchers.discard(reader)
        hub.leave(stream, reader)
        if session is not None:
            await session.watching.stand(watches=False)
            if session.pilot is not None:
                await session.pilot.detach()
    if not socket.is_gone and reader.ending is not None:
        await socket.close(reader.ending, is_announced=reader.is_evicted)


def _number(socket: Socket, name: str) -> int | None:
    """Read a number of the query. Raises: ValueError."""
    text = socket.query.get(name, "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ValueError(name)
    return int(text) if text else None
