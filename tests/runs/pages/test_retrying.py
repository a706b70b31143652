"""The Retry form of a run's page, and its post."""

from typing import Any

import pytest

from runs.ids import text_id
from runs.models import Attempt, AuditEntry, Operation, Run
from runs.pages.retrying import committed_operations
from tests.runs.pages.scenes import Scene


def address(run: Run) -> str:
    return f"/runs/{text_id('run', run.pk)}/"


def form_of(client: Any, run: Run) -> dict[str, Any]:
    """Read the hidden fields that the page has put into its form."""
    retry = client.get(address(run)).context["retry"]
    return {"key": retry["key"], "version": retry["version"], "reuse": "finished"}


def test_an_ended_run_offers_a_retry_and_a_live_one_does_not(owner, as_owner):
    scene = Scene(owner)
    assert as_owner.get(address(scene.run)).context["retry"] is None
    scene.fail("x", "broken")
    page = as_owner.get(address(scene.run)).content.decode()
    assert f'action="{address(scene.run)}retry/"' in page
    assert f'action="{address(scene.run)}retry/"' in as_owner.get(f"{address(scene.run)}extras/").content.decode()


def test_who_may_not_retry_sees_no_form_and_is_refused(owner, viewer, teammate, outsider, signed_in):
    run = Scene(owner).fail("x", "broken")
    for actor, status in ((viewer, 403), (teammate, 403), (outsider, 404)):
        client = signed_in(actor)
        if status == 403:
            assert client.get(address(run)).context["retry"] is None
        assert client.post(f"{address(run)}retry/", {}).status_code == status
    assert Run.objects.get(pk=run.pk).attempt == 1


def test_the_post_leads_back_to_the_page_of_the_new_attempt(owner, as_owner):
    run = Scene(owner).fail("x", "broken")
    answer = as_owner.post(f"{address(run)}retry/", form_of(as_owner, run) | {"reason": "once more"})
    assert (answer.status_code, answer["Location"]) == (303, address(run))
    page = as_owner.get(address(run)).content.decode()
    assert "Attempt 2, retry of 1 by owner: “once more”" in page
    assert "once more" not in as_owner.get("/runs/").content.decode()


def test_a_second_click_is_the_same_retry(owner, as_owner):
    run = Scene(owner).fail("x", "broken")
    form = form_of(as_owner, run)
    for _ in range(2):
        assert as_owner.post(f"{address(run)}retry/", form).status_code == 303
    assert Attempt.objects.filter(run=run).count() == 2
    assert list(as_owner.get(address(run)).context["messages"]) == []


def test_other_choices_after_the_retry_are_said_to_be_late(owner, as_owner):
    run = Scene(owner).fail("x", "broken")
    form = form_of(as_owner, run)
    as_owner.post(f"{address(run)}retry/", form)
    page = as_owner.post(f"{address(run)}retry/", form | {"reuse": "nothing"}, follow=True)
    assert b"This attempt was retried already" in page.content


def test_what_took_effect_can_be_ticked_and_is_audited(owner, as_owner):
    scene = Scene(owner)
    scene.tool("create_invoice", effect="idempotent")
    run = scene.fail("x", "broken")
    operation = Operation.objects.get()
    page = as_owner.get(address(run)).content.decode()
    assert f'value="{text_id("op", operation.pk)}"' in page
    as_owner.post(f"{address(run)}retry/", form_of(as_owner, run) | {"redo": text_id("op", operation.pk)})
    run.refresh_from_db()
    assert Attempt.objects.get(pk=run.stream_id).keys == {operation.key: f"{operation.key}#redo-1"}
    assert AuditEntry.objects.get().action == "operation.redo"


@pytest.mark.parametrize("wrong", [{"redo": "nonsense"}, {"reuse": "some"}, {"reason": "x" * 1001}, {"version": "0"}])
def test_a_wrong_form_changes_nothing_and_says_why(owner, as_owner, wrong):
    run = Scene(owner).fail("x", "broken")
    page = as_owner.post(f"{address(run)}retry/", form_of(as_owner, run) | wrong, follow=True)
    assert page.status_code == 200
    assert list(page.context["messages"])
    assert Run.objects.get(pk=run.pk).attempt == 1


def test_only_what_took_effect_is_offered_and_its_newest_time(owner):
    scene = Scene(owner)
    scene.tool("create_invoice", effect="idempotent")
    scene.tool("send_mail", effect="write", outcome="failed")
    run = scene.fail("x", "broken")
    assert [o.tool for o in committed_operations(run)] == ["create_invoice"]
