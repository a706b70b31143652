"""The conversation on a run's page: what was said, what waits, and the next message."""

from typing import Any

import pytest

from runs import services
from runs.database import decide
from runs.decisions import endings
from runs.ids import parse_id, text_id
from runs.models import NextMessage, Run
from runs.states import Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent


def chat(owner: Any, prompt: str = "hello", **more: Any) -> Run:
    return services.create_run(actor=owner, agent="chat", input={"prompt": prompt, "system": "Be kind."}, **more).run


def finish(run: Run, result: str = "an answer") -> Run:
    run.refresh_from_db()
    end = endings.finish_run(run_id=run.pk, fence=a_claim(run), status=Status.COMPLETED, result=result)
    decide(end, ring=silent)
    run.refresh_from_db()
    return run


def address(run: Run) -> str:
    return f"/runs/{text_id('run', run.pk)}/"


def say(client: Any, run: Run, prompt: str = "and then?", **more: Any) -> Any:
    form = {"prompt": prompt, "key": f"k-{prompt}", "on_busy": "enqueue"} | more
    return client.post(f"{address(run)}continue/", form)


def test_a_message_to_an_ended_run_opens_the_next_one_with_its_other_choices(owner, as_owner):
    run = finish(chat(owner))
    answer = say(as_owner, run)
    second = Run.objects.get(turn=2)
    assert (answer.status_code, answer["Location"]) == (303, address(second))
    assert second.input == {"prompt": "and then?", "system": "Be kind."}
    page = as_owner.get(address(second)).content.decode()
    assert "What was said before" in page
    assert "an answer" in page
    before = as_owner.get(address(run)).content.decode()
    assert "The conversation goes on:" in before
    assert 'id="talk-prompt"' not in before


def test_a_second_click_sends_one_message(owner, as_owner):
    run = finish(chat(owner))
    assert say(as_owner, run)["Location"] == say(as_owner, run)["Location"]
    assert Run.objects.count() == 2


def test_a_message_to_a_live_run_waits_on_its_page_and_can_be_taken_back(owner, as_owner):
    run = chat(owner)
    answer = say(as_owner, run)
    message = NextMessage.objects.get()
    sent = text_id("next", message.pk)
    assert answer["Location"] == f"{address(run)}?sent={sent}#talk"
    page = as_owner.get(address(run)).content.decode()
    assert "Waits until this run has ended:" in page
    assert "and then?" in as_owner.get(f"{address(run)}extras/").content.decode()
    as_owner.post(f"{address(run)}next_messages/{sent}/take_back/")
    assert "Waits until" not in as_owner.get(address(run)).content.decode()


def test_a_message_that_has_begun_says_so_when_it_is_taken_back(owner, as_owner):
    run = chat(owner)
    say(as_owner, run)
    finish(run)
    sent = text_id("next", NextMessage.objects.get().pk)
    assert f'data-came-from="{sent}"' in as_owner.get(f"{address(run)}extras/").content.decode()
    page = as_owner.post(f"{address(run)}next_messages/{sent}/take_back/", follow=True)
    assert b"has become a run already" in page.content


def test_stop_and_send_stops_a_queued_run_and_opens_the_next_one(owner, as_owner):
    run = chat(owner)
    assert b"Stop this run and send" in as_owner.get(address(run)).content
    answer = say(as_owner, run, on_busy="interrupt")
    run.refresh_from_db()
    assert (run.status, answer["Location"]) == ("cancelled", address(Run.objects.get(turn=2)))


def test_a_run_in_doubt_says_that_messages_wait_for_the_verdict(owner, as_owner):
    run = chat(owner)
    fence = a_claim(run)
    an_outcome(run, fence, a_dispatch(run, fence), "unknown")
    decide(endings.park(run_id=run.pk, fence=fence), ring=silent)
    say(as_owner, run)
    assert b"Waits until the outcome of this run is settled:" in as_owner.get(address(run)).content


def test_a_run_without_a_conversation_has_no_form(owner, as_owner):
    run = a_run(owner)
    assert as_owner.get(address(run)).context["talk"] is None
    assert say(as_owner, run).status_code == 404
    assert as_owner.post(f"{address(run)}next_messages/{text_id('next', run.pk)}/take_back/").status_code == 404


def test_who_may_not_go_on_reads_and_has_no_form(owner, viewer, teammate, operator, outsider, signed_in):
    run = finish(chat(owner))
    for actor, status, has_form in ((viewer, 403, False), (teammate, 403, False), (outsider, 404, False)):
        client = signed_in(actor)
        if status == 403:
            assert (b'id="talk-prompt"' in client.get(address(run)).content) is has_form
        assert say(client, run).status_code == status
    assert b'id="talk-prompt"' in signed_in(operator).get(address(run)).content
    assert Run.objects.count() == 1


@pytest.mark.parametrize("wrong", [{"prompt": ""}, {"prompt": "x" * 20_001}, {"on_busy": "wait"}])
def test_a_wrong_message_is_not_sent_and_says_why(owner, as_owner, wrong):
    run = finish(chat(owner))
    page = as_owner.post(f"{address(run)}continue/", {"prompt": "p", "key": "k", **wrong}, follow=True)
    assert list(page.context["messages"])
    assert Run.objects.count() == 1


def test_another_text_under_the_same_key_is_said_to_be_late(owner, as_owner):
    run = finish(chat(owner))
    say(as_owner, run, key="k")
    page = as_owner.post(f"{address(run)}continue/", {"prompt": "other", "key": "k"}, follow=True)
    assert b"This message was sent already" in page.content


def test_what_was_said_is_escaped(owner, as_owner):
    run = finish(chat(owner, "<script>alert(1)</script>"), "<b>bold</b>")
    answer = say(as_owner, run, "<i>next</i>")
    second = Run.objects.get(pk=parse_id("run", answer["Location"].split("/")[2]))
    page = as_owner.get(address(second)).content.decode()
    assert "<script>alert" not in page
    assert "<b>bold" not in page
    assert "<i>next" not in as_owner.get(address(run)).content.decode()
