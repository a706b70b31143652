"""Holding a run: who may, what is recorded, and that saying it twice changes nothing."""

import pytest

from runs.access import Actor
from runs.errors import NotAllowed, NotFound
from runs.holding import hold_run
from runs.ids import text_id
from runs.models import AuditEntry, Run, Tenant
from tests.builders import a_run, an_actor

pytestmark = pytest.mark.django_db


def test_an_admin_holds_and_releases_on_record(owner: Actor, tenant: Tenant) -> None:
    run, boss = a_run(owner), an_actor("boss", tenant, "admin")
    assert hold_run(actor=boss, run_id=run.pk, is_held=True, note="a court asked")
    version = Run.objects.get().version
    assert not hold_run(actor=boss, run_id=run.pk, is_held=True, note="again")
    assert (Run.objects.get().is_held, Run.objects.get().version) == (True, version)
    assert hold_run(actor=boss, run_id=run.pk, is_held=False, note="it is over")
    entries = AuditEntry.objects.order_by("at").values_list("action", "subject", "detail")
    name = text_id("run", run.pk)
    assert list(entries) == [
        ("run.hold", name, {"note": "a court asked"}), ("run.release", name, {"note": "it is over"}),
    ]  # fmt: skip


def test_nobody_else_may(owner: Actor, operator: Actor, outsider: Actor) -> None:
    run = a_run(owner)
    for actor, refusal in ((owner, NotAllowed), (operator, NotAllowed), (outsider, NotFound)):
        with pytest.raises(refusal):
            hold_run(actor=actor, run_id=run.pk, is_held=True, note="")
    assert not Run.objects.get().is_held
    assert not AuditEntry.objects.exists()
