"""What goes in and out of the API about shells, as types."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from runs.api.schemas import Body, Grace, Note, OnDisconnect, Title
from runs.conf import limits
from runs.models.shells import MOST_COLS, MOST_ROWS
from runs.shells import COLS, MOST_COMMAND, MOST_KEEP_SECONDS, ROWS
from runs.states import CancelReason, Status


class OpenShell(Body):
    """POST /shells; the body may be left out."""

    target: Annotated[str, Field(min_length=1, max_length=60)] | None = None
    command: Annotated[str, Field(max_length=MOST_COMMAND)] | None = None
    rows: Annotated[int, Field(ge=1, le=MOST_ROWS)] = ROWS
    cols: Annotated[int, Field(ge=1, le=MOST_COLS)] = COLS
    title: Title | None = None
    on_disconnect: OnDisconnect | None = None
    record: bool = False
    deadline_s: Annotated[float, Field(gt=0, le=limits().max_deadline_seconds, allow_inf_nan=False)] | None = None


class EndShell(Body):
    """POST /shells/{id}/terminate; the body may be left out."""

    note: Note = ""


class KeepShell(Body):
    """POST /shells/{id}/keep: a shell that nobody pilots ends at the earliest in so many seconds."""

    seconds: Annotated[float, Field(gt=0, le=MOST_KEEP_SECONDS, allow_inf_nan=False)]


class ShellLinksOut(BaseModel):
    """Addresses of what belongs to the shell. `socket` is a WebSocket."""

    self: str
    run: str
    socket: str
    terminate: str
    keep: str
    take_over: str | None
    hand_back: str | None
    recording: str | None
    html: str


class WatcherOut(BaseModel):
    """One person who watches, and by how many connections."""

    name: str
    windows: int


class ShellOut(BaseModel):
    """A shell. Its status, stop and grace are its run's. `exit_code` and `signal` say how its program ended.

    `held_by` is who has taken an agent's shell over; `in_control` who types by a connection of theirs; `watching` those
    who look on.
    """

    id: str
    object: Literal["shell"]
    run: str
    status: Status
    title: str
    target: str
    command: str
    rows: int
    cols: int
    opened_by: Literal["person", "agent"]
    is_recorded: bool
    created_at: datetime
    created_by: str
    held_by: str | None
    in_control: str | None
    watching: list[WatcherOut]
    ended_at: datetime | None
    exit_code: int | None
    signal: int | None
    cancel_reason: CancelReason | None
    on_disconnect: Literal["continue"] | Grace
    grace_expires_at: datetime | None
    deadline_at: datetime | None
    links: ShellLinksOut
