"""Planted bugs: one guard of a decision taken out, by rewriting the SQL that it yields. The explorer must catch each.

A bug is edits (decision, text, instead) of statements whose runs of blanks are one space, and the scenarios in which
it must show. A text that is found nowhere is an error of its own: else a bug could silently stop to be planted.
Left out, because taking one away breaks no promise where the other guard still stands: the lease in a holder's own
end, "in flight" in a release, statuses that the fence implies (RULES, "Not needed for safety").
"""

from dataclasses import dataclass, field

from tests.explore.actors import Rewrite

type Edit = tuple[str, str, str]


@dataclass(frozen=True)
class Bug:
    """What is taken out, and where it must be seen."""

    name: str
    scenarios: tuple[str, ...]
    edits: tuple[Edit, ...]
    hits: set[Edit] = field(default_factory=set, compare=False)

    def rewrite(self) -> Rewrite:
        """Give the function that plants the bug."""
        self.hits.clear()

        def plant(decision: str, sql: str) -> str:
            plain = " ".join(sql.split())
            changed = plain
            for edit in self.edits:
                if edit[0] == decision and edit[1] in changed:
                    self.hits.add(edit)
                    changed = changed.replace(edit[1], edit[2])
            return sql if changed == plain else changed

        return plant

    def missing(self) -> list[Edit]:
        """Return the edits whose text was in no statement."""
        return [edit for edit in self.edits if edit not in self.hits]


def bug(name: str, scenarios: str, *edits: Edit) -> Bug:
    return Bug(name, tuple(scenarios.split()), edits)


NO_LEASE = "and (lease_until is null or lease_until < clock_timestamp())"
ENDS = "fence = fence + %(takes)s"
TAKES = "fence = fence + 1, lease_until = null"
KEEPS = "lease_until = null"
NO_UNKNOWN = "and unknown_ops = 0"
NONE_OPEN = "and open_ops = 0"
ON_TIME = "and (deadline_at is null or deadline_at > clock_timestamp())"
BEGIN_STATUS = "and status = 'running' and stream_id = %(stream)s"
GATE_STATUS = "and fence = %(fence)s and status = 'running' and (deadline_at"

_BUGS = [
    # claim
    bug("claim takes a live lease", "cancel-vs-claim takeover-vs-heartbeat", ("claim", NO_LEASE, "")),
    bug("claim keeps the fence", "takeover-vs-append",
        ("claim", "fence = fence + 1, lease_owner", "fence = fence, lease_owner")),
    bug("claim of any status", "wait-vs-wake",
        ("claim", "status in ('queued', 'running', 'cancel_requested', 'cancelling')", "true")),
    bug("claim forgets the calls of the dead claim", "takeover-vs-dispatch-model",
        ("claim", "open_ops = open_ops - %(n)s", "open_ops = open_ops")),
    bug("claim of a stopped run goes on", "takeover-and-cancel",
        ("claim", "when 'cancel_requested' then 'cancelling'", "when 'cancel_requested' then 'running'")),
    # renew
    bug("renew of a lost claim", "takeover-vs-heartbeat",
        ("renew", "and w.fence = r.fence where r.lease_owner = %(worker)s and", "where")),
    # append
    bug("append by a lost fence", "takeover-vs-append", ("append_many", "and w.fence = r.fence", "")),
    bug("append after the end", "append-vs-finish", ("append_many", "and w.fence = r.fence", ""),
        ("append_many", "where r.status in ('running', 'cancel_requested', 'cancelling') and", "where")),
    bug("append repeats a batch", "takeover-vs-append",
        ("append_many", "and h.batch = h.last_batch + 1", "")),
    # dispatch
    bug("dispatch after a cancel", "cancel-vs-dispatch-write",
        ("dispatch", GATE_STATUS, "and fence = %(fence)s and (deadline_at")),
    bug("a read begins after a cancel", "cancel-vs-dispatch-read cancel-vs-dispatch-model",
        ("dispatch", BEGIN_STATUS, "and stream_id = %(stream)s")),
    bug("dispatch by a lost fence", "takeover-vs-dispatch-read",
        ("dispatch", "and fence = %(fence)s and status = 'running'", "and status = 'running'")),
    bug("dispatch after the deadline", "deadline-vs-dispatch", ("dispatch", ON_TIME, "")),
    bug("dispatch beside an unknown outcome", "dispatch-beside-unknown", ("dispatch", NO_UNKNOWN, "")),
    bug("dispatch of what is in flight", "takeover-vs-receipt-write dispatch-twice",
        ("dispatch", "select o.*, s.stream_id", "select o.*, 'refuted' as state, s.stream_id")),
    bug("dispatch is not counted", "cancel-vs-dispatch-write",
        ("dispatch", "open_ops = open_ops + %(adds)s", "open_ops = open_ops")),
    bug("a read is not counted", "cancel-vs-dispatch-read",
        ("dispatch", "open_ops = open_ops + 1", "open_ops = open_ops")),
    bug("dispatch forgets an older try", "refusal-after-doubt",
        ("dispatch", "is_ambiguous = excluded.is_ambiguous", "is_ambiguous = false")),
    # receipt
    bug("a receipt is counted twice", "receipt-twice", ("finish_step", "and version = %(version)s", "")),
    bug("a receipt is not counted", "cancel-vs-receipt",
        ("finish_step", "open_ops = open_ops - %(closes)s", "open_ops = open_ops")),
    bug("an unknown outcome is not counted", "dispatch-beside-unknown",
        ("finish_step", "unknown_ops = unknown_ops + %(unknown)s", "unknown_ops = unknown_ops")),
    bug("a refusal is believed although an older try may land", "refusal-after-doubt",
        ("finish_step", "o.is_ambiguous", "false as is_ambiguous")),
    # finish
    bug("finish after a cancel", "cancel-vs-finish", ("finish_run", "and status = 'running'", "")),
    bug("finish by a lost fence", "takeover-vs-finish",
        ("finish_run", "fence = %(fence)s and status = 'running'", "status = 'running'"),
        ("finish_run", "version = %(version)s and", "")),
    bug("finish beside a call in flight", "finish-beside-call", ("finish_run", NONE_OPEN, "")),
    bug("finish beside an unknown outcome", "finish-beside-unknown", ("finish_run", NO_UNKNOWN, "")),
    bug("finish overlooks a new connection", "attach-vs-finish", ("finish_run", "version = %(version)s and", "")),
    bug("finish keeps the fence", "cancel-vs-finish", ("finish_run", ENDS, "fence = fence")),
    # wait and wake
    bug("wait sleeps over an answer", "wait-vs-wake", ("wait", "and wakes = %(wakes)s", "")),
    bug("wait beside a call in flight", "wait-beside-call", ("wait", NONE_OPEN, "")),
    bug("wait beside an unknown outcome", "wait-beside-unknown",
        ("wait", "and (unknown_ops = 0 or open_children > 0)", "")),
    bug("wait after a cancel", "wait-vs-cancel", ("wait", "and status = 'running'", "")),
    bug("wait keeps the fence", "wait-vs-wake", ("wait", TAKES, KEEPS)),
    bug("an answer is no wake-up", "wait-vs-wake", ("answer", "wakes = wakes + 1", "wakes = wakes")),
    bug("a second answer is taken", "answer-vs-timeout",
        ("answer", "and state = 'open' and expires_at", "and expires_at")),
    bug("a late answer is taken", "answer-vs-timeout-vs-cancel", ("answer", "and expires_at > clock_timestamp()", "")),
    bug("a question expires twice", "timeout-twice",
        ("expire_question", "and state = 'open' and expires_at", "and expires_at")),
    bug("a question after a stop", "ask-vs-stop", ("ask", "and fence = %(fence)s and status = 'running'", "")),
    bug("a timer after a stop", "sleep-vs-stop", ("set_timer", "and fence = %(fence)s and status = 'running'", "")),
    bug("a timer wakes what does not wait", "timer-vs-cancel",
        ("fire_timer", "and status = 'waiting' and waiting_for = 'timer' and wake_at <= clock_timestamp()", "")),
    # cancel
    bug("the second cancel overwrites the first", "cancel-vs-finish",
        ("request_cancel", "and status in ('queued', 'running', 'waiting')", "")),
    bug("cancel ends a run with a call in flight", "takeover-and-cancel",
        ("request_cancel", "open_ops, unknown_ops,", "0 as open_ops, 0 as unknown_ops,")),
    bug("cancel leaves the question open", "wait-vs-cancel",
        ("request_cancel", "in (select id from asked) and state = 'open'", "in (select id from asked) and false")),
    bug("the client is called gone while it is there", "grace-fires-vs-attach",
        ("request_cancel", "and control_count = 0 and grace_expires_at <= clock_timestamp()", "")),
    bug("a cancel that ends at once keeps the fence", "release-vs-cancel", ("request_cancel", TAKES, KEEPS)),
    # end a cancel
    bug("the end of a cancel needs no cancel", "end-without-a-stop",
        ("end_cancel", "status in ('cancel_requested', 'cancelling') and", "")),
    bug("a call in doubt is called committed", "stop-of-a-lost-call",
        ("end_cancel", "case when e.id is null then 'unknown' else 'succeeded' end", "'succeeded'")),
    bug("the end of a cancel keeps the fence", "forced-end-vs-holder", ("end_cancel", TAKES, KEEPS)),
    bug("an interrupt takes the conversation before the run", "interrupt-vs-finish",
        ("send", "from runs_run where id = %(run)s for no key update", "from runs_run where id = %(run)s")),
    # force-stop
    bug("a forced stop ends what has ended", "force-vs-finish",
        ("force_stop", "status in ('cancel_requested', 'cancelling') and", "")),
    bug("a forced stop overwrites the first one", "force-vs-cancel",
        ("force_stop", "and status in ('queued', 'running', 'waiting')", "")),
    bug("a forced stop keeps the fence", "force-vs-receipt", ("force_stop", TAKES, KEEPS)),
    bug("a forced stop guesses", "force-of-a-lost-call",
        ("force_stop", "case when e.id is null then 'unknown' else 'succeeded' end", "'succeeded'")),
    bug("a forced stop leaves the question open", "force-vs-answer",
        ("force_stop", "in (select id from asked) and state = 'open'", "in (select id from asked) and false"),
        ("force_stop", "in (select id from run) and state = 'open'", "in (select id from run) and false")),
    bug("a forced parent ends before its child", "tree-force-vs-childs-call",
        ("force_stop", "and open_children = 0", ""),
        ("force_stop", "and (terminal_at is null or told_parent is null)", "and false")),
    # park and reconcile
    bug("park beside a call in flight", "park-beside-call", ("park", NONE_OPEN, "")),
    bug("park keeps the fence", "park-vs-cancel", ("park", TAKES, KEEPS)),
    bug("reconciled with one outcome open", "two-operations-settled", ("settle", NO_UNKNOWN, "")),
    bug("a run that goes on is reconciled", "settle-vs-park", ("settle", "and status = 'needs_reconciliation'", "")),
    # settle
    bug("decided twice", "two-verdicts", ("settle", "and state = 'unknown' and version = %(version)s", "")),
    bug("a verdict overlooks a receipt that comes", "verdict-vs-late-receipt",
        ("settle", "and version = %(version)s", "")),
    bug("a verdict goes against a receipt", "verdict-vs-late-receipt", ("settle", "said.happened)", "false)")),
    bug("did not happen is believed too early", "look-up-before-horizon",
        ("settle", "holder_gone_at is not null and horizon_at < clock_timestamp()", "true")),
    bug("a verdict is not counted", "two-verdicts",
        ("settle", "unknown_ops = unknown_ops - 1", "unknown_ops = unknown_ops")),
    bug("an old dispatch that is unknown stays counted", "takeover-vs-receipt-write",
        ("mark_unknown", "open_ops = open_ops - 1", "open_ops = open_ops")),
    bug("a receipt that a new holder takes adds no version", "takeover-vs-receipt-write",
        ("mark_unknown", "unknown_ops + %(unknown)s, version = version + 1", "unknown_ops + %(unknown)s")),
    # hand over
    bug("release keeps the fence", "release-vs-cancel", ("release", TAKES, KEEPS)),
    bug("release by a lost fence", "takeover-vs-release", ("release", "and fence = %(fence)s", "")),
    bug("a lease that lives is called expired", "takeover-vs-heartbeat",
        ("expire_lease", "and lease_until < clock_timestamp()", "and lease_until is not null")),
    # presence
    bug("attach leaves the grace", "grace-vs-attach", ("attach", ", grace_expires_at = null", "")),
    bug("attach is not counted", "attach-vs-finish",
        ("attach", "control_count = control_count + 1", "control_count = control_count")),
    bug("attach adds no version", "attach-vs-finish",
        ("attach", "control_count + 1, version = version + 1", "control_count + 1")),
    bug("attach to a run that has ended", "attach-vs-finish",
        ("attach", "version, status, attempt", "version, 'running' as status, attempt")),
    bug("the grace starts while somebody is there", "lapse-vs-detach",
        ("detach", "control_count = 1 and on_disconnect", "on_disconnect")),
    bug("a lapse is counted twice", "lapse-vs-detach",
        ("lapse", "and is_live and presence_until", "and presence_until")),
    # children
    bug("spawn after a stop", "tree-spawn-vs-stop", ("spawn", GATE_STATUS, "and fence = %(fence)s and (deadline_at")),
    bug("spawn is not counted", "tree-spawn-vs-stop",
        ("spawn", "open_children = open_children + 1", "open_children = open_children")),
    bug("a tree grows beyond its bound", "tree-spawn-where-one-fits",
        ("spawn", "descendants < %(most)s as is_there", "true as is_there"),
        ("spawn", "and descendants < %(most)s", "")),
    bug("two begin a child where one fits", "tree-spawn-where-one-fits", ("spawn", "for no key update", "")),
    bug("wait sleeps over a child's end", "tree-childs-end-vs-wait", ("wait", "and wakes = %(wakes)s", "")),
    bug("a child's end is no wake-up", "tree-childs-end-vs-wait", ("count_end", "wakes = wakes + 1", "wakes = wakes")),
    bug("a child's end is counted twice", "tree-stop-vs-childs-end",
        ("count_end", "case when told_before is null then 1 else 0 end", "2")),
    bug("the parent finishes before its child", "tree-finish-beside-child",
        ("finish_run", "and open_children = 0", "")),
    bug("a stop leaves the child out", "tree-stop-vs-childs-call",
        ("request_cancel", "and (terminal_at is null or told_parent is null)", "and false")),
    bug("a stopped parent ends before its child", "tree-stop-vs-holder",
        ("end_cancel", "and open_children = 0", "")),
    # retry
    bug("retry keeps the fence", "retry-vs-old-holder", ("retry", "fence = fence + 1, status", "status")),
    bug("retry sets the fence back", "retry-vs-old-holder",
        ("retry", "fence = fence + 1, status", "fence = 0, status")),
    bug("retry of what is not settled", "retry-vs-reconcile",
        ("retry", "version, status, attempt", "version, 'failed' as status, attempt"),
        ("retry", "and status in ('cancelled', 'completed', 'failed')", "")),
    bug("retry against a receipt", "retry-vs-late-receipt",
        ("retry", "receipt, is_process, contradicted_at", "receipt, is_process, null as contradicted_at"),
        ("dispatch", "select o.*, s.stream_id", "select o.*, null as contradicted_at, s.stream_id")),
    bug("a new attempt does again what is done", "retry-after-success",
        ("dispatch", "select o.*, s.stream_id", "select o.*, 'refuted' as state, s.stream_id")),
]  # fmt: skip
BUGS = {b.name: b for b in _BUGS}
