"""What goes in and out of the API about attempts, as types."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from runs.api.schemas import Body, Note
from runs.conf import limits
from runs.states import Reuse, Status


class RetryRun(Body):
    """POST /runs/{id}/attempts; the body may be left out."""

    reason: Note = ""
    reuse: Literal["finished", "nothing"] = "finished"
    redo: Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=100)] = []
    deadline_s: Annotated[float, Field(gt=0, le=limits().max_deadline_seconds, allow_inf_nan=False)] | None = None


class AttemptOut(BaseModel):
    """One try at a run. All but the first say of which attempt they are a retry, and what they reused of it.

    events_expired_at: when retention deleted its events; what they came to is still shown.
    """

    object: Literal["attempt"]
    number: int
    run_id: str
    stream_id: str
    status: Status | None
    created_at: datetime
    ended_at: datetime | None
    retry_of: int | None
    by: str | None
    reason: str
    reuse: Reuse | None
    events_expired_at: datetime | None
