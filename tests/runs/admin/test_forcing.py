from django.urls import reverse

from runs.database import decide
from runs.decisions import cancels
from runs.models import AuditEntry
from runs.states import CancelReason
from tests.builders import a_claim, a_dispatch, a_run, an_actor, silent
from tests.runs.pages.scenes import Scene

MEANT = {"note": "its target hangs", "is_meant": "on"}


def change(run):
    return reverse("admin:runs_run_change", args=[run.pk])


def force(run):
    return reverse("admin:runs_run_force_stop", args=[run.pk])


def a_stopping_run(owner):
    run = a_run(owner)
    a_dispatch(run, a_claim(run))
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER, by=owner.user.pk), ring=silent)
    return run


def test_it_says_what_it_means_and_asks_twice_before_anything_ends(owner, as_operator):
    run = a_stopping_run(owner)
    assert force(run).encode() in as_operator.get(change(run)).content
    page = as_operator.get(force(run)).content.decode()
    assert "kills nothing faster than a stop does" in page
    assert "comes to the queue of verdicts" in page
    assert "whose outcome is open: 1" in page
    for said in ({"note": "x"}, {"is_meant": "on"}, {"note": "", "is_meant": "on"}):
        assert as_operator.post(force(run), said).status_code == 200
    run.refresh_from_db()
    assert run.terminal_at is None


def test_the_run_ends_on_record_and_its_operation_is_in_the_queue(owner, operator, as_operator):
    run = a_stopping_run(owner)
    answer = as_operator.post(force(run), MEANT, follow=True)
    assert answer.redirect_chain[0][0] == change(run)
    assert b"is in the queue of verdicts" in answer.content
    run.refresh_from_db()
    assert (run.status, run.cancel_reason) == ("needs_reconciliation", "user")
    entry = AuditEntry.objects.get()
    assert (entry.user, entry.action, entry.detail["note"]) == (operator.user, "run.force_stop", "its target hangs")
    queue = as_operator.get(reverse("admin:runs_operation_changelist"), {"verdict": "open"})
    assert run.operations.get().key.encode() in queue.content
    assert force(run).encode() not in answer.content


def test_where_everything_is_known_it_says_so(owner, as_operator):
    run = a_run(owner)
    answer = as_operator.post(force(run), MEANT, follow=True)
    assert b"the outcome of everything that it did is known" in answer.content
    run.refresh_from_db()
    assert run.status == "cancelled"


def test_after_the_end_it_changes_nothing_and_says_so(owner, as_operator):
    run = Scene(owner).complete("x")
    answer = as_operator.post(force(run), MEANT, follow=True)
    assert b"It had ended before" in answer.content
    assert not AuditEntry.objects.exists()


def test_a_member_of_staff_who_is_no_operator_there_finds_no_such_run(owner, tenant, desk):
    run = a_stopping_run(owner)
    assert desk(an_actor("staff", tenant, "runner")).post(force(run), MEANT).status_code == 404
    run.refresh_from_db()
    assert run.terminal_at is None
