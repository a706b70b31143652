"""The tables. The database holds runs, attempts and the operation ledger; everything else follows from them."""

from runs.models.compensation import Compensation
from runs.models.conversation import Conversation, NextMessage
from runs.models.files import Artifact, Document, Passage
from runs.models.identity import ApiToken, AuditEntry, Membership, Role, Tenant
from runs.models.ledger import Evidence, Operation, Question, Step
from runs.models.run import Attempt, Run
from runs.models.shells import Shell, ShellTarget, ShellViewer
from runs.models.stream import Checkpoint, ControlConnection, Event, OutboxRow

__all__ = [
    "ApiToken", "Artifact", "Attempt", "AuditEntry", "Checkpoint", "Compensation", "ControlConnection", "Conversation",
    "Document", "Event", "Evidence", "Membership", "NextMessage", "Operation", "OutboxRow", "Passage", "Question",
    "Role", "Run", "Shell", "ShellTarget", "ShellViewer", "Step", "Tenant",
]  # fmt: skip
