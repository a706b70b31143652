"""The run socket, /ws/v1/runs/<id>/: one run's events, and for its pilot a control connection."""

import asyncio
from typing import Any
from uuid import UUID

from runs.creating import SHELL
from runs.errors import Busy
from runs.ids import BadId, parse_id
from streaming.access import UNKNOWN_RUN, Admitted
from streaming.consumers.socket import BAD_PROTOCOL, BUSY, ClientFrame, Socket
from streaming.follow import Opening, follow
from streaming.hub import DATABASE_ERRORS, Hub
from streaming.presence import Presence
from streaming.protocol import Ack, BadCursor, Cursor, parse_cursor


async def run_socket(scope: Any, receive: Any, send: Any) -> None:
    """Serve one connection from its handshake to its close.

    Query: after=<cursor>, snapshot=1 (the load of a page), tail=1 (stay open past the end), role=control|viewer.
    """
    socket = Socket(scope, receive, send)
    let_in = await _let_in(socket, scope)
    if let_in is None:
        return
    hub, opening, presence = let_in
    try:
        await _serve(socket, hub, opening, presence)
    finally:
        if presence is not None:
            await presence.detach()


async def _let_in(socket: Socket, scope: Any) -> tuple[Hub, Opening, Presence | None] | None:
    """Accept, admit and attach; None when the connection was closed instead.

    A function of its own, so that the rows that it has read (60 columns, and whatever the run came to) are not kept
    for as long as the connection lasts.
    """
    try:
        run_id = parse_id("run", scope["url_route"]["kwargs"]["run_id"])
    except BadId:
        run_id = UUID(int=0)  # no run has it: the answer is that of a run that does not exist
    opened = await socket.open(run_id)
    if opened is None:
        return None
    hub, admitted = opened
    if admitted.run is None:
        await socket.close(UNKNOWN_RUN)
        return None
    try:
        after = _after(socket.query.get("after", ""))
    except BadCursor:
        await socket.close(BAD_PROTOCOL)
        return None
    try:
        presence = await _attach(hub, admitted) if socket.query.get("role") == "control" else None
    except (*DATABASE_ERRORS, Busy):
        await socket.close(BUSY)
        return None
    if presence is not None:
        socket.reader.who = admitted.in_control
    opening = Opening(
        run_id=run_id,
        stream_id=admitted.run.stream_id,
        after=after,
        wants_snapshot=socket.query.get("snapshot") == "1",
        is_tail=socket.query.get("tail") == "1",
        grants=_grants(presence),
    )
    return hub, opening, presence


async def _serve(socket: Socket, hub: Hub, opening: Opening, presence: Presence | None) -> None:
    reader = socket.reader

    def take(frame: ClientFrame) -> None:
        if isinstance(frame, Ack):
            reader.window.ack(frame.seq)
            reader.poke()
        if presence is not None:
            presence.sign_of_life()

    if presence is None:
        await socket.serve(follow(hub, opening, reader), take)
        return
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(presence.keep()), group.create_task(presence.beat(reader))]
        try:
            await socket.serve(follow(hub, opening, reader), take)
        finally:
            for task in tasks:
                task.cancel()


async def _attach(hub: Hub, admitted: Admitted) -> Presence | None:
    """Make it a control connection where the reader may stop the run; else it just watches."""
    if admitted.run is None or not admitted.may_stop or admitted.run.agent == SHELL:
        return None  # a shell stays for its pilot, not for who looks at its run
    presence = Presence(hub.db, admitted.run.pk, admitted.who.user_id)
    return presence if await presence.attach() is not None else None


def _grants(presence: Presence | None) -> dict[str, Any]:
    if presence is None or presence.attached is None:
        return {"role": "viewer"}
    attached = presence.attached
    return {"role": "control", "generation": attached.generation, "grace_s": attached.grace_seconds}


def _after(text: str) -> Cursor | None:
    return parse_cursor(text) if text else None
