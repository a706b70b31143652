"""Who meets whom: each scenario is a scene and two to four actors; docs/LIFECYCLE.md says who must win.

Letters: W the holder, V and U other workers, C who stops, S and Z supervisors, P and Q people, T time, O an operator,
A, D and R pages.
"""

from functools import partial
from typing import Any

from runs.decisions import claims, controls, endings, operations, retry, steps
from tests.explore import people, workers
from tests.explore.actors import Script
from tests.explore.beginnings import BEGINNINGS
from tests.explore.casting import scenario
from tests.explore.families import FAMILIES
from tests.explore.invariants import Rows
from tests.explore.orders import World
from tests.explore.scenes import (
    abandoned,
    asking,
    committed,
    held,
    in_doubt,
    in_doubt_beside_a_call,
    queued,
    refuted,
    settled_under_a_holder,
    sleeping,
    two_in_doubt,
    watched,
)


# -- scripts with one line ---------------------------------------------------------------------------------------------
def one(make: Any) -> Any:
    """A script of one decision."""

    def script(world: World) -> Script:
        yield make(world)

    return script


def holder(*calls: str) -> Any:
    """The holder makes its calls and finishes."""
    return lambda world: workers.holder(world, world.fence, *calls)


def receiver(kind: str = "write", *, then_finish: bool = True) -> Any:
    """The holder has its permit already: the request leaves, lands, and its receipt comes."""

    def script(world: World) -> Script:
        sent = world.sent
        word = yield from workers.send(world, world.fence, kind, "1", sent.step_id, sent.operation_id)
        if word == "on" and then_finish:
            yield from workers.finish(world, world.fence)

    return script


def finisher(world: World) -> Script:
    """The holder finishes."""
    yield from workers.finish(world, world.fence)


def stopper(world: World) -> Script:
    """The holder sees the stop and ends it."""
    yield from workers.end_stop(world, world.fence)


def in_turn(*parts: Any) -> Any:
    """One actor does one thing after the other."""

    def script(world: World) -> Script:
        for part in parts:
            yield from part(world)

    return script


def claimant(*calls: str, worker: str = "worker-b") -> Any:
    """Another worker claims and carries on."""
    return lambda world: workers.claimant(world, *calls, worker=worker)


def supervisor(*names: str) -> Any:
    """A supervisor sweeps for these, by its real statements."""
    return lambda world: people.supervisor(world, *names)


def time(*names: str) -> Any:
    """These times pass."""
    return lambda world: people.time_passes(world, *names)


def releaser(world: World) -> Script:
    """The holder drains: it gives the run back, whatever is in flight."""
    yield claims.release(run_id=world.run_id, fence=world.fence, even_in_flight=world.facts.get("force", False))


def end_model(world: World) -> Script:
    """The holder records how its model call ended; one whose answer was lost does it again."""
    yield from workers.end_call(world, world.fence, world.sent.step_id, None)


def parker(world: World) -> Script:
    """The holder parks the run; where a stop was first, it ends that."""
    ended = yield endings.park(run_id=world.run_id, fence=world.fence)
    if isinstance(ended, endings.NotEnded) and ended.reason == "cancel":
        yield from workers.end_stop(world, world.fence)


def leaver(number: int) -> Any:
    """A connection closes."""
    return one(lambda world: controls.detach(connection_id=world.connections[number]))


def reviver(number: int) -> Any:
    """A connection gives a sign of life."""
    return one(lambda world: controls.renew_presence(connection_id=world.connections[number]))


def lapser(number: int) -> Any:
    """A supervisor stops counting a connection that is silent."""
    return one(lambda world: controls.lapse(connection_id=world.connections[number]))


attacher = one(lambda world: controls.attach(run_id=world.run_id, user_id=world.user_id))
canceller = people.canceller
late_receipt = one(
    lambda world: operations.record_evidence(
        operation_id=world.sent.operation_id, fence=world.fence, kind="receipt", happened=True, detail=workers.PROOF
    )
)


def landed_before(world: World) -> Script:
    """What is in doubt has happened: its receipt comes late."""
    world.target.land(workers.key_of(world, "1"))
    yield from late_receipt(world)


# -- what must be true besides the invariants --------------------------------------------------------------------------
def one_first_answer(world: World, rows: Rows) -> None:
    """Of all who asked it to stop at most one was first; the receipt of each names what had begun."""
    answers = [a for a in world.answers if a is not None]
    firsts = [a for a in answers if a.is_first]
    assert len(firsts) == int(rows["run"]["cancel_id"] is not None), "two were first, or nobody was"
    assert all(a.too_late for a in answers if a not in firsts and not firsts), "it was not too late"


def one_closed_it(world: World, rows: Rows) -> None:
    """Of all who closed the question one has won, and the value is theirs."""
    won = [c for c in world.facts.get("closed", []) if c.won]
    assert len(won) <= 1, "two answers were taken"


def is_ended(world: World, rows: Rows) -> None:
    """Somebody has ended the run."""
    assert rows["run"]["terminal_at"] is not None, "nobody has ended it"


def late_is_late(world: World, rows: Rows) -> None:
    """An answer after its time is not taken."""
    assert not any(c.won for c in world.closed), "a late answer was taken"


def stale_has_lost(world: World, rows: Rows) -> None:
    """Once another worker has claimed the run, the old holder neither finishes nor frees it."""
    claimed = [value for name, value in world.results["V"] if isinstance(value, claims.Claimed)]
    freed = [value for name, value in world.results["W"] if isinstance(value, endings.Ended | claims.Released)]
    assert not freed or not claimed or claimed[0].fence > world.fence + 1, "a stale worker ended or freed it"


def one_new_attempt(world: World, rows: Rows) -> None:
    """There are as many new attempts as there are people who were told that they got one."""
    got = [a for a in world.facts.get("retried", []) if isinstance(a, retry.Retried)]
    assert rows["run"]["attempt"] == 1 + len(got), "one too many"


def stop_is_ended(world: World, rows: Rows) -> None:
    """One was first, and the run is ended: both who work and who supervise were there."""
    one_first_answer(world, rows)
    is_ended(world, rows)


def nobody_is_cut_off(world: World, rows: Rows) -> None:
    """Where a connection is live, no grace runs."""
    run = rows["run"]
    if run["terminal_at"] is None and run["cancel_id"] is None:
        assert (run["grace_expires_at"] is None) == (run["control_count"] > 0), "the grace and the connections disagree"


def force_is_ended(world: World, rows: Rows) -> None:
    """The run is ended, by one of those who could: of all who forced it at most one has, and the log says so once."""
    is_ended(world, rows)
    by_force = [a for a in world.facts.get("forced", []) if a.has_ended_it]
    told = [event["type"] for event in rows["events"]].count("run.stop_forced")
    assert told == len(by_force) <= 1, "it was ended by force more than once, or nobody was told"


_KINDS = ("model", "read", "idempotent", "write")
_SCENARIOS = [
    *(scenario(f"cancel-vs-dispatch-{kind}", held, stop_is_ended, W=holder(kind), C=canceller) for kind in _KINDS),
    scenario("cancel-vs-two-calls", held, stop_is_ended, W=holder("model", "write"), C=canceller),
    scenario("cancel-vs-claim", queued, one_first_answer, V=claimant("read"), U=claimant("read", worker="worker-c"),
             C=canceller),
    scenario("cancel-vs-finish", held, stop_is_ended, W=finisher, C=canceller, Z=canceller),
    scenario("cancel-vs-receipt", partial(held, kind="write"), stop_is_ended, W=receiver(), C=canceller),
    scenario("cancel-vs-heartbeat", held, one_first_answer, C=canceller,
             W=lambda w: workers.heartbeat(w, w.fence), S=supervisor("stop_deadline")),
    scenario("deadline-vs-dispatch", held, is_ended, W=holder("write"), T=time("deadline"),
             S=in_turn(supervisor("deadline"), supervisor("deadline"))),
    scenario("dispatch-twice", held, None, W=one(lambda w: workers.begin(w, w.fence, "idempotent", "1")),
             V=one(lambda w: workers.begin(w, w.fence, "idempotent", "1"))),
    scenario("takeover-vs-append", abandoned, None, W=lambda w: workers.writer(w, w.fence, 1, 1, 2),
             V=claimant("write"), S=supervisor("expired_lease")),
    scenario("append-vs-finish", held, None, W=finisher, V=lambda w: workers.writer(w, w.fence, 1, 2)),
    scenario("takeover-vs-finish", held, stale_has_lost, W=finisher, T=time("lease"), V=claimant("read")),
    scenario("takeover-vs-release", held, stale_has_lost, W=releaser, T=time("lease"), V=claimant("read")),
    scenario("receipt-twice", partial(held, kind="model"), None, W=end_model, V=end_model, C=canceller),
    scenario("refusal-after-doubt", partial(abandoned, kind="idempotent"), None, W=receiver("idempotent"),
             V=claimant("idempotent"), T=time("horizon")),
    scenario("finish-beside-call", partial(held, kind="write"), None, W=finisher,
             V=receiver(then_finish=False), C=canceller),
    scenario("finish-beside-unknown", partial(in_doubt, ended=False), None, W=finisher, C=canceller),
    scenario("park-beside-call", in_doubt_beside_a_call, None, W=parker, C=canceller),
    scenario("end-without-a-stop", abandoned, None, V=claimant("write"),
             S=one(lambda w: endings.end_cancel(run_id=w.run_id))),
    scenario("takeover-vs-heartbeat", abandoned, None, W=lambda w: workers.heartbeat(w, w.fence),
             V=claimant(), S=supervisor("expired_lease")),
    *(scenario(f"takeover-vs-dispatch-{kind}", held, None, W=holder(kind), T=time("lease"), V=claimant(kind))
      for kind in _KINDS),
    *(scenario(f"takeover-vs-receipt-{kind}", partial(abandoned, kind=kind), None, W=receiver(kind),
               V=claimant(kind)) for kind in ("idempotent", "write")),
    scenario("takeover-and-cancel", abandoned, one_first_answer, W=receiver(), V=claimant("write"), C=canceller,
             S=supervisor("stop_deadline")),
    scenario("verdict-before-horizon", abandoned, None, W=receiver(), V=claimant("write"),
             T=time("horizon"), S=people.verifier),
    scenario("answer-vs-timeout", partial(asking, is_waiting=True), one_closed_it, P=people.answerer,
             Q=lambda w: people.answerer(w, 2), T=time("question"), S=supervisor("question")),
    scenario("answer-vs-cancel", partial(asking, is_waiting=True), one_closed_it, P=people.answerer, C=canceller),
    scenario("answer-vs-timeout-vs-cancel", partial(asking, is_waiting=True, is_late=True), late_is_late,
             P=people.answerer, S=supervisor("question"), C=canceller),
    scenario("wait-vs-wake", asking, one_closed_it, W=lambda w: workers.asker(w, w.fence), P=people.answerer,
             V=claimant()),
    scenario("wait-beside-call", partial(asking, kind="write"), None, W=lambda w: workers.asker(w, w.fence),
             P=people.answerer),
    scenario("wait-beside-unknown", partial(asking, kind="write", is_unknown=True), None,
             W=lambda w: workers.asker(w, w.fence), C=canceller),
    scenario("wait-vs-timeout", partial(asking, is_late=True), None, W=lambda w: workers.asker(w, w.fence),
             S=supervisor("question")),
    scenario("timeout-twice", partial(asking, is_waiting=True, is_late=True), None, S=supervisor("question"),
             Z=supervisor("question")),
    scenario("wait-vs-cancel", asking, one_first_answer, W=lambda w: workers.asker(w, w.fence), C=canceller),
    scenario("timer-vs-cancel", sleeping, one_first_answer, S=supervisor("timer"), Z=supervisor("timer"), C=canceller),
    scenario("settle-vs-late-receipt", in_doubt, None, O=lambda w: people.operator(w, happened=True, override=False),
             W=landed_before, S=people.verifier),
    scenario("look-up-before-horizon", partial(abandoned, is_stopping=True), None, W=receiver(then_finish=False),
             S=in_turn(supervisor("stop_deadline"), people.verifier), T=time("horizon")),
    scenario("settle-vs-park", partial(in_doubt, ended=False), None, W=parker,
             O=lambda w: people.operator(w, happened=False, override=True)),
    scenario("two-operations-settled", two_in_doubt, None,
             O=lambda w: people.operator(w, happened=False, override=True),
             Q=lambda w: people.operator(w, happened=False, override=True)),
    scenario("retry-after-success", committed, one_new_attempt, Q=people.retrier, P=people.retrier,
             V=claimant("write")),
    scenario("verdict-vs-late-receipt", in_doubt, None, W=landed_before,
             O=lambda w: people.operator(w, happened=False, override=True)),
    scenario("retry-vs-reconcile", in_doubt, one_new_attempt, Q=people.retrier, P=people.retrier, V=claimant("write"),
             O=lambda w: people.operator(w, happened=False, override=True)),
    scenario("retry-vs-late-receipt", refuted, one_new_attempt, Q=people.retrier, W=landed_before,
             V=claimant("write")),
    scenario("retry-vs-old-holder", settled_under_a_holder, one_new_attempt, Q=people.retrier, V=claimant("write"),
             W=in_turn(receiver(then_finish=False), lambda w: workers.writer(w, w.fence, 1))),
    scenario("two-verdicts", in_doubt, None, O=lambda w: people.operator(w, happened=False, override=True),
             Q=lambda w: people.operator(w, happened=False, override=True), S=people.verifier),
    scenario("grace-vs-attach", partial(watched, is_overdue=False), None, D=leaver(0), A=attacher, T=time("grace"),
             S=supervisor("client_gone")),
    scenario("grace-fires-vs-attach", partial(watched, lapsed=True, is_overdue=True), None, A=attacher,
             S=supervisor("client_gone"), R=reviver(0)),
    scenario("lapse-vs-detach", partial(watched, connections=2), nobody_is_cut_off, T=time("presence"), S=lapser(0),
             D=leaver(0), R=reviver(1)),
    scenario("attach-vs-finish", watched, None, W=finisher, A=attacher, D=leaver(0)),
    scenario("two-supervisors", partial(abandoned, is_stopping=True), is_ended, W=receiver(then_finish=False),
             S=supervisor("expired_lease", "stop_deadline"), Z=supervisor("expired_lease", "stop_deadline")),
    scenario("stop-of-a-lost-call", partial(abandoned, is_stopping=True), is_ended, S=supervisor("stop_deadline"),
             Z=supervisor("expired_lease", "stop_deadline")),
    scenario("release-vs-cancel", held, one_first_answer, W=releaser, C=canceller, V=claimant()),
    scenario("forced-release-vs-cancel", lambda o: held(o, kind="write") | {"force": True}, one_first_answer,
             W=releaser, C=canceller, V=claimant("write")),
    scenario("park-vs-cancel", partial(in_doubt, ended=False), is_ended, W=parker, C=canceller,
             S=supervisor("stop_deadline")),
    scenario("forced-end-vs-holder", partial(held, kind="write", is_stopping=True), is_ended,
             W=in_turn(receiver(then_finish=False), stopper), T=time("stop_deadline"),
             S=in_turn(supervisor("stop_deadline"), supervisor("stop_deadline"))),
    *(scenario(f"force-vs-dispatch-{kind}", held, force_is_ended, W=holder(kind), O=people.forcer)
      for kind in ("model", "write")),
    scenario("force-vs-receipt", partial(held, kind="write"), force_is_ended, W=receiver(), O=people.forcer,
             P=people.forcer),
    scenario("force-vs-settle", partial(held, kind="write", is_stopping=True), force_is_ended,
             W=in_turn(receiver(then_finish=False), stopper), O=people.forcer, T=time("stop_deadline"),
             S=supervisor("stop_deadline")),
    scenario("force-vs-finish", held, force_is_ended, W=finisher, O=people.forcer),
    scenario("force-vs-cancel", held, force_is_ended, W=holder("write"), C=canceller, O=people.forcer),
    scenario("force-vs-takeover", abandoned, force_is_ended, W=receiver(), V=claimant("write"), O=people.forcer,
             S=people.verifier),
    scenario("force-of-a-lost-call", abandoned, force_is_ended, O=people.forcer, P=people.forcer,
             S=supervisor("expired_lease")),
    scenario("force-vs-answer", partial(asking, is_waiting=True), force_is_ended, P=people.answerer, O=people.forcer),
    scenario("dispatch-beside-unknown", partial(held, kind="write"), None, V=one(lambda w: workers.begin(
             w, w.fence, "read", "2")), W=lambda w: workers.end_call(w, w.fence, w.sent.step_id,
             steps.OperationOutcome("unknown", {})), C=canceller),
]  # fmt: skip
SCENARIOS = {s.name: s for s in [*_SCENARIOS, *FAMILIES, *BEGINNINGS]}
