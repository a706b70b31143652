"""Retrying a run from the operators' desk."""

from django.urls import reverse

from runs.models import Attempt, AuditEntry, Operation
from tests.runs.pages.scenes import Scene


def retry(run):
    return reverse("admin:runs_run_retry", args=[run.pk])


def change(run):
    return reverse("admin:runs_run_change", args=[run.pk])


def hidden(client, run):
    form = client.get(retry(run)).context["form"]
    return {"version": form["version"].value(), "key": form["key"].value(), "reuse": "finished"}


def test_a_retry_asks_why_and_is_on_record(owner, operator, as_operator):
    scene = Scene(owner)
    scene.tool("create_invoice", effect="idempotent")
    assert retry(scene.run).encode() not in as_operator.get(change(scene.run)).content
    run = scene.fail("x", "broken")
    operation = Operation.objects.get()
    assert retry(run).encode() in as_operator.get(change(run)).content
    form = hidden(as_operator, run)
    assert as_operator.post(retry(run), form | {"reason": ""}).status_code == 200
    answer = as_operator.post(retry(run), form | {"reason": "the target lost it", "redo": [str(operation.pk)]})
    assert answer["Location"] == change(run)
    run.refresh_from_db()
    attempt = Attempt.objects.get(pk=run.stream_id)
    assert (attempt.number, attempt.created_by, attempt.reason) == (2, operator.user, "the target lost it")
    assert {e.action for e in AuditEntry.objects.all()} == {"run.retry", "operation.redo"}
    assert b"the target lost it" in as_operator.get(change(run)).content


def test_a_run_that_has_moved_is_not_retried(owner, as_operator):
    run = Scene(owner).fail("x", "broken")
    page = as_operator.post(retry(run), hidden(as_operator, run) | {"reason": "r", "version": 1})
    assert b"Somebody changed this since you read it." in page.content
    run.refresh_from_db()
    assert run.attempt == 1


def test_a_run_of_another_tenant_is_not_found(outsider, as_operator):
    run = Scene(outsider).fail("x", "broken")
    assert as_operator.get(retry(run)).status_code == 404
