"""The words and signs of the pages: one table a kind, for templates and, as JSON, for the page's modules."""

from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

type Text = str | Promise


@dataclass(frozen=True, slots=True)
class Word:
    """How one state is shown: never by colour alone."""

    text: Text
    icon: str
    tone: str


STATUS: dict[str, Word] = {
    "queued": Word(_("Queued"), "queued", "grey"),
    "running": Word(_("Running"), "running", "blue"),
    "waiting": Word(_("Waiting"), "waiting", "teal"),
    "cancel_requested": Word(_("Stopping…"), "stopping", "amber"),
    "cancelling": Word(_("Stopping…"), "stopping", "amber"),
    "cancelled": Word(_("Stopped"), "stopped", "grey"),
    "completed": Word(_("Completed"), "completed", "green"),
    "failed": Word(_("Failed"), "failed", "red"),
    "needs_reconciliation": Word(_("Being verified"), "verifying", "violet"),
}

STEP: dict[str, Word] = {
    "open": Word(_("in progress"), "running", "blue"),
    "finished": Word(_("finished"), "check", "green"),
    "failed": Word(_("failed"), "cross", "red"),
    "superseded": Word(_("run again"), "cut", "grey"),
    "abandoned": Word(_("dropped"), "cut", "grey"),
    "stopped": Word(_("stopped"), "stopped", "grey"),
    "unanswered": Word(_("no answer"), "verifying", "violet"),  # abandoned, but it may have happened outside
}

OPERATION: dict[str, Word] = {
    "intended": Word(_("not sent"), "dot", "grey"),
    "dispatched": Word(_("sent, waiting for the answer"), "running", "blue"),
    "succeeded": Word(_("done"), "check", "green"),
    "failed": Word(_("refused"), "cross", "red"),
    "refuted": Word(_("did not happen"), "cross", "grey"),
    "stopped": Word(_("stopped"), "stopped", "grey"),  # a process that a stop has ended
    "unknown": Word(_("being verified"), "verifying", "violet"),
    "confirmed": Word(_("happened"), "check", "green"),
}

# Undoing an operation, where that says more than the operation's own state: a refusal has changed nothing.
UNDO: dict[str, Word] = {
    "intended": Word(_("to be undone"), "running", "blue"),
    "dispatched": Word(_("being undone"), "running", "blue"),
    "succeeded": Word(_("undone"), "check", "grey"),
    "unknown": Word(_("perhaps undone"), "verifying", "violet"),
    "confirmed": Word(_("undone"), "check", "grey"),
}

# What the receipt of a stop says about each step and operation (DESIGN section 2).
RECEIPT: dict[str, Word] = {
    "not_started": Word(_("never began"), "dot", "grey"),
    "pending": Word(_("waiting for proof"), "running", "blue"),
    "stopped": Word(_("stopped"), "stopped", "grey"),
    "finished_first": Word(_("finished before the stop"), "check", "green"),
    "committed": Word(_("already done"), "check", "amber"),
    "abandoned": Word(_("dropped"), "cut", "grey"),
    "unknown": Word(_("may have happened"), "verifying", "violet"),
}

# By what an outcome is known, where our own code says it; what a tool says of its target stays as it is.
PROOF: dict[str, Text] = {
    "look_up": _("found by asking the target"),
    "look-up": _("found by asking the target"),
    "verdict": _("settled by an operator"),
    "receipt": _("by a late answer of the target"),
    "refusal": _("by a late refusal of the target"),
    "no answer": _("no answer came"),
    "no proof": _("no proof"),
    "nothing was sent": _("nothing was sent"),
    "process tree empty": _("no process is left"),
}

EFFECT: dict[str, Word] = {
    "read": Word(_("reads"), "document", "grey"),
    "idempotent": Word(_("writes once"), "tool", "blue"),
    "write": Word(_("writes"), "tool", "amber"),
}

KIND: dict[str, Word] = {
    "model": Word(_("model"), "model", "grey"),
    "tool": Word(_("tool"), "tool", "grey"),
    "ask": Word(_("question"), "ask", "teal"),
    "timer": Word(_("timer"), "timer", "grey"),
    "text": Word(_("text"), "text", "grey"),
    "child": Word(_("run of its own"), "child", "grey"),
}

QUESTION: dict[str, Text] = {
    "open": _("Waits for your answer"),
    "answered": _("Answered"),
    "expired": _("Nobody answered in time"),
    "shut": _("Closed without an answer"),
}

CANCEL_REASON: dict[str, Text] = {
    "user": _("Stopped by a person"),
    "deadline": _("Stopped at its deadline"),
    "policy": _("Stopped because a right or a budget ran out"),
    "operator": _("Stopped by an operator"),
    "client_gone": _("Stopped because its page was closed"),
    "parent": _("Stopped together with the run that started it"),
}

ROLE: dict[str, Text] = {
    "viewer": _("viewer"),
    "runner": _("runner"),
    "operator": _("operator"),
    "admin": _("admin"),
}


def words_for_scripts() -> dict[str, Any]:
    """Give the tables to the page's modules in the reader's language."""
    tables = {
        "status": STATUS,
        "step": STEP,
        "operation": OPERATION,
        "undo": UNDO,
        "receipt": RECEIPT,
        "effect": EFFECT,
        "kind": KIND,
    }
    words: dict[str, Any] = {
        name: {key: {"text": str(w.text), "icon": w.icon, "tone": w.tone} for key, w in table.items()}
        for name, table in tables.items()
    }
    words["question"] = {key: str(text) for key, text in QUESTION.items()}
    words["reason"] = {key: str(text) for key, text in CANCEL_REASON.items()}
    words["proof"] = {key: str(text) for key, text in PROOF.items()}
    return words
