import pytest
from django.urls import reverse

from runs.admin.ledger import preview, status_after
from runs.ids import text_id
from runs.models import AuditEntry, Evidence, Operation, Run
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


def test_the_form_shows_evidence_as_json(as_operator, lost):
    detail = {"found": None, "raw": {"status": 503}}
    Evidence.objects.create(operation=lost, kind="look_up", fence=1, happened=None, detail=detail)
    page = as_operator.get(reverse("admin:runs_operation_settle", args=[lost.pk])).content.decode()
    assert "&quot;found&quot;:null" in page.replace(" ", "")


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


def test_b57_two_operators_cannot_overwrite_each_other(as_operator, lost):
    page = settle(as_operator, lost, version=lost.version + 1)
    lost.refresh_from_db()
    assert lost.state == "unknown"
    assert b"Somebody changed this" in as_operator.get(page["Location"]).content


def look_up(client, *operations):
    """Choose rows of the list and the action below it."""
    data = {"action": "look_up", "_selected_action": [str(operation.pk) for operation in operations]}
    return client.post(reverse("admin:runs_operation_changelist"), data, follow=True).content.decode()


def test_b57_a_bulk_action_touches_only_what_it_may(owner, operator, as_operator, lost):
    """Over operations in all states: only the unknown one is asked for; an audit entry says so; the rest is named."""
    scene = Scene(owner)
    scene.tool("send_mail", effect="write")
    scene.tool("create_invoice", effect="idempotent", outcome="failed")
    running = Scene(owner)
    running.tool("create_invoice", effect="idempotent", outcome="unknown")
    Operation.objects.update(next_look_up_at=None)
    before = {o.pk: (o.state, o.version) for o in Operation.objects.all()}
    assert len(before) == 4
    page = look_up(as_operator, *Operation.objects.all())
    assert "1 operation is being looked up" in page
    assert "Left as they are: 2. This operation is decided already" in page
    assert "Left as they are: 1. The run goes on" in page
    assert {o.pk: (o.state, o.version) for o in Operation.objects.all()} == before
    assert [o.pk for o in Operation.objects.exclude(next_look_up_at=None)] == [lost.pk]
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.subject, entry.user) == ("operation.look_up", text_id("op", lost.pk), operator.user)


def test_b57_staff_who_may_not_settle_change_nothing(outsider, teammate, desk, lost):
    Operation.objects.update(next_look_up_at=None)
    look_up_address = reverse("admin:runs_operation_look_up", args=[lost.pk])
    for person in (outsider, teammate):
        client = desk(person)
        look_up(client, lost)
        assert client.post(look_up_address).status_code == 404
        assert settle(client, lost).status_code == 404
    lost.refresh_from_db()
    assert (lost.state, lost.next_look_up_at) == ("unknown", None)
    assert not AuditEntry.objects.exists()


def test_one_operation_is_looked_up_from_its_verdict_page(as_operator, lost):
    Operation.objects.update(next_look_up_at=None)
    address = reverse("admin:runs_operation_look_up", args=[lost.pk])
    page = as_operator.get(reverse("admin:runs_operation_settle", args=[lost.pk])).content.decode()
    assert address in page
    assert as_operator.get(address).status_code == 405
    page = as_operator.post(address, follow=True).content.decode()
    assert "Being looked up" in page
    lost.refresh_from_db()
    assert lost.next_look_up_at is not None


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
