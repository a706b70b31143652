"""The ledger's part of the API's types: operations, verdicts, and what undoes an effect."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from runs.api.schemas import Body, not_blank
from runs.states import OperationState


class SettleOperation(Body):
    """POST /operations/{id}/settle."""

    outcome: Literal["happened", "not_happened"]
    note: Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(not_blank)]
    override: bool = False


class SettleCompensation(Body):
    """POST /compensations/{id}/settle."""

    outcome: Literal["happened", "not_happened"]
    note: Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(not_blank)]


class OperationOut(BaseModel):
    """One effect outside our database."""

    id: str
    object: Literal["operation"]
    run_id: str
    step_id: str
    key: str
    tool: str
    effect: str
    state: OperationState
    version: int
    can_look_up: bool
    arguments: Any
    receipt: Any
    created_at: datetime
    dispatched_at: datetime | None
    horizon_at: datetime | None
    settled_at: datetime | None
    settled_by: str | None
    settle_note: str
    contradicted_at: datetime | None


class CompensationOut(BaseModel):
    """One try to undo an effect; an action of its own."""

    id: str
    object: Literal["compensation"]
    operation_id: str
    key: str
    state: OperationState
    version: int
    note: str
    requested_at: datetime
    requested_by: str
    dispatched_at: datetime | None
    finished_at: datetime | None
    receipt: Any
    settled_by: str | None
    settle_note: str


class Compensate(Body):
    """POST /operations/{id}/compensations: why an effect is to be undone."""

    note: Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(not_blank)]
