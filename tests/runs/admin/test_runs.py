from django.urls import reverse

from runs.models import AuditEntry
from tests.builders import a_run
from tests.runs.pages.scenes import Scene

HOSTILE = "<script>alert(1)</script>"


def change(run):
    return reverse("admin:runs_run_change", args=[run.pk])


def stop(run):
    return reverse("admin:runs_run_stop", args=[run.pk])


def test_a_run_shows_its_steps_operations_and_newest_events(owner, as_operator):
    scene = Scene(owner, title="an invoice")
    scene.tool("create_invoice", effect="idempotent", arguments={"customer": HOSTILE})
    scene.model("words", is_open=True)
    scene.events("usage", None, *({"input_tokens": n} for n in range(150)))
    run = scene.reload()
    page = as_operator.get(change(run)).content.decode()
    assert "create_invoice" in page
    assert f"<td>{run.last_seq}</td>" in page
    assert f"<td>{run.last_seq - 100}</td>" not in page
    assert HOSTILE not in page


def test_a_stop_asks_why_and_is_on_record(owner, operator, as_operator):
    run = a_run(owner)
    assert stop(run).encode() in as_operator.get(change(run)).content
    assert b'name="note"' in as_operator.get(stop(run)).content
    assert as_operator.post(stop(run), {"note": ""}).status_code == 200
    run.refresh_from_db()
    assert run.status == "queued"
    answer = as_operator.post(stop(run), {"note": "it went astray"})
    assert answer["Location"] == change(run)
    run.refresh_from_db()
    assert (run.status, run.cancel_reason, run.cancel_note) == ("cancelled", "operator", "it went astray")
    entry = AuditEntry.objects.get()
    assert (entry.user, entry.action) == (operator.user, "run.stop")


def test_a_late_stop_says_so(owner, as_operator):
    run = Scene(owner).complete("x")
    page = as_operator.post(stop(run), {"note": "late"}, follow=True)
    assert b"It finished before your stop took effect." in page.content
    assert stop(run).encode() not in as_operator.get(change(run)).content


def test_a_superuser_outside_the_tenant_stops_and_is_audited(owner, as_root):
    run = a_run(owner)
    as_root.post(stop(run), {"note": "from outside"})
    run.refresh_from_db()
    assert run.status == "cancelled"
    assert AuditEntry.objects.get().tenant == owner.tenant
