"""Holding a run at the operators' desk."""

from django.test import Client
from django.urls import reverse

from runs.access import Actor
from runs.models import AuditEntry, Run
from tests.builders import a_run


def test_an_admin_holds_a_run_and_releases_it(owner: Actor, as_admin: Client) -> None:
    run = a_run(owner)
    change, hold = (reverse(f"admin:runs_run_{name}", args=[run.pk]) for name in ("change", "hold"))
    assert b"Hold this run" in as_admin.get(change).content
    assert as_admin.post(hold, {"note": "", "is_held": "on"}).status_code == 200
    assert not Run.objects.get().is_held
    page = as_admin.post(hold, {"note": "a court asked", "is_held": "on"}, follow=True).content
    assert b"nothing of it is deleted" in page
    assert b"Release this run" in page
    assert Run.objects.get().is_held
    as_admin.post(hold, {"note": "it is over"})
    assert not Run.objects.get().is_held
    assert AuditEntry.objects.count() == 2


def test_a_page_that_is_not_new_any_more_changes_nothing_twice(owner: Actor, as_admin: Client) -> None:
    """Two admins look at the same page: the second one's "hold" does not release what the first has held."""
    run = a_run(owner)
    hold = reverse("admin:runs_run_hold", args=[run.pk])
    for _ in range(2):
        as_admin.post(hold, {"note": "a court asked", "is_held": "on"})
    assert Run.objects.get().is_held
    assert AuditEntry.objects.count() == 1


def test_an_operator_is_not_offered_it_and_refused(owner: Actor, as_operator: Client) -> None:
    run = a_run(owner)
    change, hold = (reverse(f"admin:runs_run_{name}", args=[run.pk]) for name in ("change", "hold"))
    assert b"Hold this run" not in as_operator.get(change).content
    assert as_operator.post(hold, {"note": "x", "is_held": "on"}).status_code == 200
    assert not Run.objects.get().is_held
