"""The tables. The database holds runs, attempts and the operation ledger; everything else follows from them."""

from runs.models.files import Artifact, Document, Passage
from runs.models.identity import ApiToken, AuditEntry, Membership, Role, Tenant
from runs.models.ledger import Evidence, Operation, Question, Step
from runs.models.run import Attempt, Run
from runs.models.stream import ControlConnection, Event, OutboxRow

__all__ = [
    "ApiToken", "Artifact", "Attempt", "AuditEntry", "ControlConnection", "Document", "Event", "Evidence",
    "Membership", "Operation", "OutboxRow", "Passage", "Question", "Role", "Run", "Step", "Tenant",
]  # fmt: skip
