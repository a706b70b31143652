"""What the API says of conversations, as types."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel

from runs.states import Status


class NextMessageOut(BaseModel):
    """A message that waits for its turn. `waits_until`: end (of the run it waits for), or verdict (it is in doubt)."""

    id: str
    object: Literal["next_message"]
    conversation_id: str
    state: Literal["waiting", "started", "withdrawn"]
    agent: str
    input: dict[str, Any]
    created_at: datetime
    run_id: str | None
    waits_for: str | None
    waits_until: Literal["end", "verdict"] | None


class ConversationOut(BaseModel):
    """Runs that follow one another. `run_id` and `status` are those of the newest."""

    id: str
    object: Literal["conversation"]
    created_at: datetime
    created_by: str
    turns: int
    run_id: str | None
    status: Status | None
    next_messages: list[NextMessageOut]
    links: dict[str, str]
