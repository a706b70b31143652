"""What goes in and out of the API, as types: bodies are checked strictly, answers are described for OpenAPI."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from runs.conf import limits
from runs.inputs import MAX_BUDGET_TOKENS, MAX_GRACE_SECONDS, MAX_TITLE
from runs.states import CancelReason, QuestionState, Status, StepState


class Body(BaseModel):
    """A request body: no unknown field, no silent conversion (`true` is no number, "5" is none either)."""

    model_config = ConfigDict(extra="forbid", strict=True)


def not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


Title = Annotated[str, Field(min_length=1, max_length=MAX_TITLE), AfterValidator(not_blank)]
Note = Annotated[str, Field(max_length=1000)]


class Grace(Body):
    """Cancel the run this many seconds after the last control connection was lost."""

    grace_s: Annotated[float, Field(ge=0, le=MAX_GRACE_SECONDS, allow_inf_nan=False)]


OnDisconnect = Annotated[
    Annotated[Literal["continue", "cancel"], Tag("[word]")] | Annotated[Grace, Tag("[grace]")],
    Discriminator(lambda value: "[grace]" if isinstance(value, dict | Grace) else "[word]"),
]


class Budget(Body):
    """What a run and everything that it begins may spend; spent, the whole tree is stopped."""

    tokens: Annotated[int, Field(gt=0, le=MAX_BUDGET_TOKENS)]


class CreateRun(Body):
    """POST /runs."""

    agent: Annotated[str, Field(min_length=1, max_length=100)]
    input: dict[str, Any]
    title: Title | None = None
    deadline_s: Annotated[float, Field(gt=0, le=limits().max_deadline_seconds, allow_inf_nan=False)] | None = None
    on_disconnect: OnDisconnect | None = None
    conversation_id: Annotated[str, Field(max_length=100)] | None = None
    on_busy: Literal["reject", "enqueue", "interrupt"] = "reject"
    metadata: dict[str, Any] | None = None
    budget: Budget | None = None
    stream: bool = False


class CancelRun(Body):
    """POST /runs/{id}/cancel; the body may be left out."""

    note: Note = ""


class AnswerQuestion(Body):
    """POST /runs/{id}/answers/{question_id}: any JSON value that the question's schema takes."""

    value: Any


class EffectOut(BaseModel):
    """One line of the cancel receipt: what became of a step or an operation."""

    model_config = ConfigDict(extra="allow")
    outcome: str


class CancelOut(BaseModel):
    """The recorded request to stop."""

    id: str | None
    reason: CancelReason | None
    requested_at: datetime | None
    by: str | None
    note: str
    seen_at: datetime | None
    seen_by: str | None
    seen_fence: int | None
    stop_deadline_at: datetime | None
    too_late: bool
    effects: list[EffectOut]


class WaitingOut(BaseModel):
    """What a waiting run waits for. `for` is input, timer or child."""

    for_: str = Field(alias="for")
    wake_at: datetime | None
    question_ids: list[str]


class RunErrorOut(BaseModel):
    """Why a run failed."""

    code: str
    message: str


class UsageOut(BaseModel):
    """Tokens so far."""

    input_tokens: int
    output_tokens: int


class ChildOut(BaseModel):
    """A run that the current attempt has begun."""

    id: str
    agent: str
    status: Status


class RunLinksOut(BaseModel):
    """Addresses of what belongs to the run."""

    self: str
    events: str
    cancel: str
    artifacts: str
    attempts: str
    html: str


class RunOut(BaseModel):
    """A run."""

    id: str
    object: Literal["run"]
    status: Status
    title: str
    agent: str
    input: dict[str, Any]
    metadata: dict[str, Any]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    deadline_at: datetime | None
    parent_id: str | None
    children: list[ChildOut]
    budget: Budget | None
    conversation_id: str | None
    turn: int | None
    attempt: int
    stream_id: str
    head_seq: int
    version: int
    on_disconnect: Literal["continue"] | Grace
    grace_expires_at: datetime | None
    waiting: WaitingOut | None
    cancel: CancelOut | None
    unsettled_operations: list[str]
    shell: str | None
    result: Any
    error: RunErrorOut | None
    usage: UsageOut
    links: RunLinksOut


class CancelReceiptOut(CancelOut):
    """The answer to a request to stop; the run object keeps filling up what is pending."""

    object: Literal["cancel_receipt"]
    status: Status
    run: RunOut


class QuestionOut(BaseModel):
    """A question to a person."""

    id: str
    object: Literal["question"]
    run_id: str
    prompt: str
    schema_: Any = Field(alias="schema")
    state: QuestionState
    value: Any
    asked_at: datetime
    expires_at: datetime
    closed_at: datetime | None


class StepOut(BaseModel):
    """One durable step of an attempt."""

    id: str
    object: Literal["step"]
    run_id: str
    stream_id: str
    path: str
    kind: str
    name: str
    effect: str | None
    state: StepState
    arguments: Any
    result: Any
    error: Any
    usage: Any
    started_at: datetime
    finished_at: datetime | None


class ArtifactOut(BaseModel):
    """A file that a run made."""

    id: str
    object: Literal["artifact"]
    run_id: str
    name: str
    content_type: str
    bytes: int
    sha256: str
    created_at: datetime
    links: dict[str, str]


class DocumentOut(BaseModel):
    """An uploaded file. `error` says why its text could not be read; the file is then named in reports."""

    id: str
    object: Literal["document"]
    name: str
    content_type: str
    bytes: int
    sha256: str
    error: str | None
    created_at: datetime
    links: dict[str, str]


class ListOut[T](BaseModel):
    """A page of a list; `next_cursor` goes into the next request's `cursor`."""

    object: Literal["list"]
    data: list[T]
    has_more: bool
    next_cursor: str | None


class ErrorOut(BaseModel):
    """The error itself. `code` is stable; `retryable`: the same request with the same key may be sent again."""

    type: str
    code: str
    message: str
    param: str | None
    doc_url: str
    request_id: str
    retryable: bool
    details: dict[str, Any]


class ErrorEnvelope(BaseModel):
    """Every answer that is no success."""

    error: ErrorOut
