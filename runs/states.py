"""The states of a run, an operation, a step and a question, and which may follow which.

    queued --> running --> completed | failed
                 |  ^
                 v  |
               waiting

    queued | running | waiting --> cancel_requested --> cancelling --> cancelled | needs_reconciliation
    running --> needs_reconciliation --> cancelled | completed | failed
    cancelled | completed | failed --> queued                            (only as a new attempt)

Pure: no framework, no clock, no database. docs/LIFECYCLE.md tells the same in prose.
"""

from enum import StrEnum


class Status(StrEnum):
    """Where a run stands. `runs.decisions` is the only place that writes it."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    CANCEL_REQUESTED = "cancel_requested"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    COMPLETED = "completed"
    FAILED = "failed"
    NEEDS_RECONCILIATION = "needs_reconciliation"


S = Status
ENDED = frozenset({S.COMPLETED, S.FAILED, S.CANCELLED, S.NEEDS_RECONCILIATION})
SETTLED = ENDED - {S.NEEDS_RECONCILIATION}
CANCELLABLE = frozenset({S.QUEUED, S.RUNNING, S.WAITING})
STOPPING = frozenset({S.CANCEL_REQUESTED, S.CANCELLING})
CLAIMABLE = frozenset({S.QUEUED, S.RUNNING, S.CANCEL_REQUESTED, S.CANCELLING})

NEXT: dict[Status, frozenset[Status]] = {
    S.QUEUED: frozenset({S.RUNNING, S.CANCEL_REQUESTED, S.CANCELLED}),
    S.RUNNING: frozenset({S.WAITING, S.COMPLETED, S.FAILED, S.CANCEL_REQUESTED, S.CANCELLED, S.NEEDS_RECONCILIATION}),
    # Waiting for a child that an operator ends with it, and whose outcome is unknown.
    S.WAITING: frozenset({S.RUNNING, S.CANCEL_REQUESTED, S.CANCELLED, S.NEEDS_RECONCILIATION}),
    S.CANCEL_REQUESTED: frozenset({S.CANCELLING, S.CANCELLED, S.NEEDS_RECONCILIATION}),
    S.CANCELLING: frozenset({S.CANCELLED, S.NEEDS_RECONCILIATION}),
    S.NEEDS_RECONCILIATION: frozenset({S.CANCELLED, S.COMPLETED, S.FAILED}),
    # What is settled goes on only as a new attempt, which a person asks for.
    S.CANCELLED: frozenset({S.QUEUED}),
    S.COMPLETED: frozenset({S.QUEUED}),
    S.FAILED: frozenset({S.QUEUED}),
}


class OperationState(StrEnum):
    """What is known of one effect outside our database."""

    INTENDED = "intended"
    DISPATCHED = "dispatched"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUTED = "refuted"
    UNKNOWN = "unknown"
    CONFIRMED = "confirmed"


# A compensation that came to this has undone nothing, so another one may be asked for.
UNDONE_FOR_NOTHING = frozenset({OperationState.FAILED, OperationState.REFUTED})


class StepState(StrEnum):
    """`open` is the only state in which a step may still do something."""

    OPEN = "open"
    FINISHED = "finished"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    ABANDONED = "abandoned"


class QuestionState(StrEnum):
    """The first of answer, timeout and cancel that commits wins; the others are too late."""

    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"
    SHUT = "shut"


class Reuse(StrEnum):
    """Which finished steps of the attempt before a new one takes over."""

    FINISHED = "finished"  # those before the first that did not finish or is to be done again
    NOTHING = "nothing"  # none; what was committed outside still is (RULES H13)


class OnBusy(StrEnum):
    """What a message does that comes while a run of its conversation is active."""

    REJECT = "reject"
    ENQUEUE = "enqueue"
    INTERRUPT = "interrupt"


class CancelReason(StrEnum):
    """Why a run was asked to stop; the first reason stays."""

    USER = "user"
    DEADLINE = "deadline"
    POLICY = "policy"
    OPERATOR = "operator"
    CLIENT_GONE = "client_gone"
    PARENT = "parent"


TERMINAL_EVENT = {
    S.COMPLETED: "run.completed",
    S.FAILED: "run.failed",
    S.CANCELLED: "run.cancelled",
    S.NEEDS_RECONCILIATION: "run.needs_reconciliation",
}
EPILOGUE = frozenset({"operation.late_receipt", "operation.settled", "child.settled", "run.reconciled"})
# Of workers, with the same step open: then it runs alone; then its run ends.
DEATHS_TO_ISOLATE, DEATHS_TO_END = 2, 3
MOST_DESCENDANTS = 100  # of one root: a cancel locks them all in one transaction (RULES H14)

RECEIPT_WORD = {
    OperationState.INTENDED: "not_started",
    OperationState.REFUTED: "not_started",
    OperationState.FAILED: "not_started",
    OperationState.DISPATCHED: "pending",
    OperationState.SUCCEEDED: "committed",
    OperationState.CONFIRMED: "committed",
    OperationState.UNKNOWN: "unknown",
}


def is_allowed(old: Status, new: Status) -> bool:
    """Say whether a run may go from `old` to `new` in one decision."""
    return new in NEXT[old]
