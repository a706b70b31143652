"""The rules of a run as a small pure model: what each decision must answer, and what is true afterwards.

RULES (the table of guards) and docs/LIFECYCLE.md in a few lines each, without SQL, events or time: a time is a flag
that says whether it has passed. One run, its ledger, one question; no children.
"""

from dataclasses import dataclass, field

WORKING = {"running", "cancel_requested", "cancelling"}
CANCELLABLE = {"queued", "running", "waiting"}
SETTLED = {"completed", "failed", "cancelled"}


@dataclass
class Operation:
    """One effect outside. stream: of its newest step; has_receipt: some try has one; is_proven: the newest has."""

    effect: str
    state: str = "intended"
    fence: int = 0
    stream: int = 0
    gave_up: bool = False
    retryable: bool = False
    is_ambiguous: bool = False
    has_receipt: bool = False
    is_proven: bool = False
    contradicted: bool = False


@dataclass
class Rules:
    """The row of one run, and its ledger."""

    status: str = "queued"
    fence: int = 0
    owner: str | None = None
    is_live: bool = False
    attempt: int = 1
    wakes: int = 0
    batch: int = 0
    is_asked: bool = False
    has_result: bool = False
    is_late: bool = False
    is_stop_late: bool = False
    question: str | None = None
    is_question_late: bool = False
    calls: set[str] = field(default_factory=set)
    ops: dict[str, Operation] = field(default_factory=dict)

    @property
    def open_ops(self) -> int:
        return len(self.calls) + sum(op.state == "dispatched" for op in self.ops.values())

    @property
    def unknown_ops(self) -> int:
        return sum(op.state == "unknown" for op in self.ops.values())

    @property
    def is_ended(self) -> bool:
        return self.status in SETTLED | {"needs_reconciliation"}

    def _free(self) -> None:
        self.fence, self.owner, self.is_live = self.fence + 1, None, False

    def _end(self, status: str) -> str:
        self._free()
        self.status, self.calls = status, set()
        if self.question == "open":
            self.question = "shut"
        return f"ended {status}"

    # -- claims --------------------------------------------------------------------------------------------------------
    def claim(self, worker: str) -> str:
        if self.status not in WORKING | {"queued"} or self.is_live:
            return "no"
        self.status = {"queued": "running", "cancel_requested": "cancelling"}.get(self.status, self.status)
        self.fence, self.owner, self.is_live, self.batch = self.fence + 1, worker, True, 0
        self.calls = set()
        return "claimed"

    def renew(self, worker: str, fence: int) -> str:
        if self.status not in WORKING or (self.owner, self.fence) != (worker, fence):
            return "LOST"
        self.is_live = True
        return "HELD" if self.status == "running" else "CANCEL_REQUESTED"

    def see_cancel(self, fence: int) -> str:
        if fence != self.fence:
            return "lost"
        if self.status not in ("cancel_requested", "cancelling"):
            return "none"
        self.status = "cancelling"
        return "seen"

    def release(self, fence: int, force: bool) -> str:
        if fence != self.fence or self.status not in WORKING or (self.open_ops and not force):
            return "lost"
        self._free()
        return "released"

    def take_away(self, is_true: bool) -> str:
        if not is_true or self.owner is None:
            return "False"
        self._free()
        return "True"

    def append(self, fence: int, number: int) -> str:
        if fence != self.fence or self.status not in WORKING or number not in (self.batch, self.batch + 1):
            return "lost"
        self.batch = number
        return "stored"

    # -- calls ---------------------------------------------------------------------------------------------------------
    def dispatch(self, fence: int, path: str, effect: str | None) -> str:
        op = self.ops.get(path) if effect in ("write", "idempotent") else None
        if fence != self.fence:
            return "lost"
        if op is not None and not self._may_send(op, fence):
            return "in operation"
        if self.status in ("cancel_requested", "cancelling"):
            return "cancel"
        if self.status != "running":
            return "not_running"
        if self.unknown_ops:
            return "unknown_open"
        if self.is_late:
            return "deadline"
        if effect not in ("write", "idempotent"):
            self.calls.add(path)
            return "dispatched"
        known = op or self.ops.setdefault(path, Operation(effect or ""))
        known.is_ambiguous = known.is_ambiguous or known.state == "dispatched"
        known.state, known.fence, known.stream, known.gave_up = "dispatched", fence, self.attempt, False
        known.is_proven = False
        return "dispatched"

    def _may_send(self, op: Operation, fence: int) -> bool:
        if op.contradicted:
            return False
        if op.state == "dispatched":
            return op.effect == "idempotent" and (op.fence < fence or op.gave_up)
        is_inherited = op.stream != self.attempt
        return op.state == "refuted" or (op.state == "failed" and (is_inherited or op.retryable))

    def finish_step(self, fence: int, path: str, outcome: str | None, retryable: bool, gave_up: bool) -> str:
        if fence != self.fence or self.is_ended:
            return "lost"
        if outcome is None:
            self.calls.remove(path)
            return "done None"
        op = self.ops[path]
        if op.is_ambiguous and outcome in ("failed", "refuted"):
            outcome = "unknown"
        op.state, op.retryable, op.gave_up = outcome, retryable, gave_up
        return f"done {outcome}"

    def mark_unknown(self, fence: int, path: str) -> str:
        if fence != self.fence or self.status != "running":
            return "lost"
        op = self.ops[path]
        if op.state != "dispatched" or op.fence >= fence:
            return "False"
        op.state = "succeeded" if op.is_proven else "unknown"
        return str(op.is_proven)

    def receive(self, path: str) -> None:
        """A receipt of the newest dispatch arrives as evidence."""
        op = self.ops[path]
        op.has_receipt = op.is_proven = True
        op.contradicted = op.contradicted or op.state in ("refuted", "failed")

    # -- waiting -------------------------------------------------------------------------------------------------------
    def ask(self, fence: int) -> str:
        if fence != self.fence:
            return "lost"
        if self.status != "running":
            return "cancel" if self.is_asked else "not_running"
        self.question, self.is_question_late = "open", False
        return "asked"

    def wait(self, fence: int, wakes: int) -> str:
        if fence != self.fence:
            return "lost"
        if self.status == "running" and not self.open_ops and not self.unknown_ops and wakes == self.wakes:
            self._free()
            self.status = "waiting"
            return "waiting"
        return "cancel" if self.is_asked else "woken" if wakes != self.wakes else "open"

    def close_question(self, word: str) -> str:
        is_time = self.is_question_late == (word == "expired")
        if self.question != "open" or not is_time or self.status not in ("running", "waiting"):
            return "too late"
        self.question, self.status, self.wakes = word, "running", self.wakes + 1
        return "closed"

    # -- ends ----------------------------------------------------------------------------------------------------------
    def cancel(self, is_due: bool = True) -> str:
        if self.status not in CANCELLABLE or not is_due:
            return "too late" if self.is_ended and not self.is_asked else "again"
        self.status, self.is_asked, self.is_stop_late = "cancel_requested", True, False
        if self.question == "open":
            self.question = "shut"
        if not self.is_live and not self.open_ops and not self.unknown_ops:
            self._end("cancelled")
        return "first"

    def end_cancel(self, fence: int | None) -> str:
        is_holder = fence == self.fence and not self.open_ops
        if self.status in ("cancel_requested", "cancelling") and (is_holder or not self.is_live or self.is_stop_late):
            for op in self.ops.values():
                if op.state == "dispatched":
                    op.state = "succeeded" if op.is_proven else "unknown"
            return self._end("needs_reconciliation" if self.unknown_ops else "cancelled")
        return self._why_not(fence)

    def finish(self, fence: int, status: str) -> str:
        if fence == self.fence and self.status == "running" and not self.open_ops and not self.unknown_ops:
            self.has_result = status == "completed"
            return self._end(status)
        return self._why_not(fence)

    def park(self, fence: int, has_result: bool) -> str:
        if fence == self.fence and self.status == "running" and not self.open_ops and self.unknown_ops:
            self.has_result = has_result
            return self._end("needs_reconciliation")
        return self._why_not(fence)

    def _why_not(self, fence: int | None) -> str:
        if self.is_ended:
            return "ended"
        if fence is not None and fence != self.fence:
            return "lost"
        return "cancel" if self.is_asked and not self.open_ops else "open"

    def settle(self, path: str, happened: bool) -> str:
        """Take an operator's verdict, who overrides what nobody saw, or looks again at what is contradicted."""
        op = self.ops[path]
        if op.contradicted and op.state != "unknown":
            return self._review(op, happened)
        if op.state != "unknown":
            return "decided"
        if op.has_receipt and not happened:
            return "receipt"
        op.state = "confirmed" if happened else "refuted"
        op.has_receipt, op.is_proven = op.has_receipt or happened, op.is_proven or happened
        if self.status == "needs_reconciliation" and not self.unknown_ops:
            self.status = "cancelled" if self.is_asked else "completed" if self.has_result else "failed"
        return f"settled {self.status}"

    def _review(self, op: Operation, happened: bool) -> str:
        if happened != (op.state in ("confirmed", "succeeded")):
            op.state = "confirmed" if happened else "refuted"
        op.contradicted = False
        op.has_receipt, op.is_proven = op.has_receipt or happened, op.is_proven or happened
        return f"settled {self.status}"

    def retry(self) -> str:
        if self.status not in SETTLED:
            return "not_settled"
        if any(op.contradicted for op in self.ops.values()):
            return "contradicted"
        self.status, self.attempt, self.fence = "queued", self.attempt + 1, self.fence + 1
        self.wakes, self.question = 0, None
        self.is_asked = self.has_result = self.is_late = self.is_stop_late = False
        return "retried"
