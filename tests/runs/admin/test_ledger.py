import pytest
from django.urls import reverse

from runs.admin.ledger import preview, status_after
from runs.models import AuditEntry, Operation, Run
from runs.states import Status
from tests.runs.pages.scenes import Scene


@pytest.fixture
def lost(owner):
    """An operation whose outcome nobody knows, of a run that waits for it."""
    scene = Scene(owner, agent="billing", title="Invoice 99")
    scene.tool("create_invoice", effect="idempotent", arguments={"cents": 99}, outcome="unknown")
    scene.park()
    return Operation.objects.get()


def settle(client, operation, **changes):
    data = {"outcome": "happened", "note": "it is in their list", "version": operation.version, "confirm": "yes"}
    return client.post(reverse("admin:runs_operation_settle", args=[operation.pk]), data | changes)


def test_the_queue_shows_what_needs_a_verdict(owner, as_operator, lost):
    done = Scene(owner)
    done.tool("send_mail", effect="write")
    page = as_operator.get(reverse("admin:runs_operation_changelist"), {"verdict": "open"}).content.decode()
    assert lost.key in page
    assert "send_mail" not in page.split('id="result_list"')[1]


def test_the_form_shows_what_was_sent_and_what_is_known(as_operator, lost):
    page = as_operator.get(reverse("admin:runs_operation_settle", args=[lost.pk])).content.decode()
    for part in (lost.key, "create_invoice", "99", "It may arrive until", "none yet"):
        assert part in page


def test_a_preview_changes_nothing(as_operator, lost):
    data = {"outcome": "happened", "note": "n", "version": lost.version, "preview": "yes"}
    page = as_operator.post(reverse("admin:runs_operation_settle", args=[lost.pk]), data)
    assert b"Operation: unknown becomes confirmed, for good." in page.content
    assert b"Run: it becomes Failed." in page.content
    lost.refresh_from_db()
    assert lost.state == "unknown"


def test_a_verdict_settles_and_the_run_becomes_what_it_would_have_been(operator, as_operator, lost):
    page = settle(as_operator, lost).headers["Location"]
    assert page == reverse("admin:runs_operation_change", args=[lost.pk])
    lost.refresh_from_db()
    assert (lost.state, lost.settled_by, lost.settle_note) == ("confirmed", operator.user, "it is in their list")
    assert Run.objects.get().status == "failed"
    assert AuditEntry.objects.get().action == "operation.settle"


def test_did_not_happen_waits_for_the_horizon_and_says_until_when(as_operator, lost):
    page = settle(as_operator, lost, outcome="not_happened")
    assert page.status_code == 200
    assert b"The request may still arrive until" in page.content
    lost.refresh_from_db()
    assert lost.state == "unknown"


def test_an_override_says_how_one_knows(as_operator, lost):
    settle(as_operator, lost, outcome="not_happened", override="on", note="their machine was off")
    lost.refresh_from_db()
    assert lost.state == "refuted"
    assert lost.evidence.get(kind="verdict").detail["override"] is True


def test_two_operators_cannot_overwrite_each_other(as_operator, lost):
    page = settle(as_operator, lost, version=lost.version + 1)
    lost.refresh_from_db()
    assert lost.state == "unknown"
    assert b"Somebody changed this" in as_operator.get(page["Location"]).content


@pytest.mark.parametrize(
    "changes", [{"note": ""}, {"note": "   "}, {"outcome": "maybe"}, {"version": "x"}, {"outcome": ""}]
)
def test_a_verdict_without_a_word_or_a_note_is_refused(as_operator, lost, changes):
    assert settle(as_operator, lost, **changes).status_code == 200
    lost.refresh_from_db()
    assert lost.state == "unknown"


def test_a_settled_operation_is_not_settled_again(as_operator, lost):
    settle(as_operator, lost)
    page = as_operator.get(reverse("admin:runs_operation_settle", args=[lost.pk]), follow=True)
    assert b"settled already" in page.content


def test_who_is_no_operator_of_the_tenant_cannot_settle(outsider, teammate, desk, lost):
    assert settle(desk(outsider), lost).status_code == 404
    assert settle(desk(teammate), lost).status_code == 404
    lost.refresh_from_db()
    assert lost.state == "unknown"


def test_a_superuser_settles_in_any_tenant(as_root, lost):
    settle(as_root, lost)
    lost.refresh_from_db()
    assert lost.state == "confirmed"


def test_what_a_run_becomes_follows_from_its_row():
    assert status_after(Run(cancel_id=None, has_result=True)) == Status.COMPLETED
    assert status_after(Run(cancel_id=None, has_result=False)) == Status.FAILED
    assert status_after(Run(cancel_id="0" * 32, has_result=True)) == Status.CANCELLED


def test_a_preview_counts_the_others():
    operation = Operation(run=Run(status="needs_reconciliation", unknown_ops=3), state="unknown")
    assert any("2 more operations" in line for line in preview(operation, "happened"))
    operation.run = Run(status="running", unknown_ops=1)
    assert any("still Running" in line for line in preview(operation, "not_happened"))
