import json
from datetime import timedelta

import pytest

from runs.database import decide
from runs.decisions import cancels, children, waiting
from runs.ids import new_id, text_id
from runs.models import Run
from runs.states import CancelReason
from tests.builders import a_child, a_run, silent
from tests.runs.pages.scenes import APPROVAL, Scene, every_state

HOSTILE = "<img src=x onerror=alert(1)></script>\u2028"


def page_of(client, run, query=""):
    answer = client.get(f"/runs/{text_id('run', run.pk)}/{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_page_is_complete_without_javascript(owner, as_owner):
    scene = Scene(owner, agent="researcher", title="Compare the offers")
    scene.tool("search_documents", arguments={"query": "offers"}, value={"hits": 3})
    scene.model("Offer A is the cheapest.", label="Summary of a.pdf")
    scene.artifact()
    run = scene.complete("Take offer A.")
    page = page_of(as_owner, run)
    parts = [
        "Compare the offers", "search_documents", "&quot;query&quot;: &quot;offers&quot;", "Summary of a.pdf",
        "Offer A is the cheapest.", "report.md", "Take offer A.", "<h1>Report</h1>", "req-7", "Completed",
    ]  # fmt: skip
    for part in parts:
        assert part in page, part
    assert 'http-equiv="refresh"' not in page


def test_each_state_shows_its_word_and_its_stop_line(owner, as_owner):
    runs = every_state(owner)
    lines = {
        "queued": "Not started. Stops at once.",
        "waiting": "Waits for your answer. Nothing is running.",
        "stopping": "No new step will start. Waiting for 1 step.",
        "stopped": "Already done before the stop: INV-8.",
        "verifying": "We sent “create_invoice” and got no answer; it may have happened.",
        "failed": "model_auth: The model&#x27;s key was refused.",
    }
    for name, line in lines.items():
        assert line in page_of(as_owner, runs[name]), name


def test_interrupted_text_is_kept_and_says_that_it_is_no_answer(owner, as_owner):
    page = page_of(as_owner, every_state(owner)["stopped"])
    assert "The contract was signed by both parties on the twelfth of" in page
    assert 'data-state="interrupted"' in page
    assert "Not a final answer." in page


def test_the_receipt_names_what_was_done_before_the_stop(owner, as_owner):
    page = page_of(as_owner, every_state(owner)["stopped"])
    receipt = page.split('id="receipt"')[1].split("</section>")[0]
    assert "create_invoice" in receipt
    assert "already done" in receipt
    assert "INV-8" in receipt


def test_superseded_text_is_not_shown(owner, as_owner):
    scene = Scene(owner)
    step_id, message_id = scene.model("the first half of a lost", is_open=True)
    scene.events(
        "text.end", step_id, {"message_id": text_id("msg", message_id), "final": False, "reason": "superseded"}
    )
    page = page_of(as_owner, scene.reload())
    assert "the first half of a lost" not in page.split('id="view"')[0]


def test_hostile_text_anywhere_stays_text(owner, as_owner):
    scene = Scene(owner, title=HOSTILE, input={"prompt": HOSTILE})
    scene.tool(arguments={"q": HOSTILE}, value=HOSTILE)
    scene.model(HOSTILE, label=HOSTILE)
    scene.artifact(name=HOSTILE, content=HOSTILE.encode())
    scene.ask(HOSTILE, {"type": "string", "title": HOSTILE, "description": HOSTILE, "enum": [HOSTILE]})
    page = page_of(as_owner, scene.reload())
    assert "<img" not in page
    assert page.count("<script") == page.count("</script>")


def test_a_markdown_artifact_cannot_bring_its_own_markup(owner, as_owner):
    scene = Scene(owner)
    scene.artifact(content=b"# Hi\n<script>alert(1)</script>\n\n[x](javascript:alert(1)) ![i](http://e.invalid/x.png)")
    page = page_of(as_owner, scene.complete())
    preview = page.split('class="prose"')[1].split("</section>")[0]
    assert "<h1>Hi</h1>" in preview
    assert "<script" not in preview
    assert "javascript:" not in preview.replace("[x](javascript:alert(1))", "")
    assert "<img" not in preview


def test_the_page_carries_the_cursor_that_its_view_stands_for(owner, as_owner):
    scene = Scene(owner)
    scene.model("words", is_open=True)
    run = scene.reload()
    page = page_of(as_owner, run)
    assert f'data-cursor="{text_id("st", run.stream_id)}:{run.last_seq}"' in page
    view = json.loads(page.split('<script id="view" type="application/json">')[1].split("</script>")[0])
    assert view["seq"] == run.last_seq


def test_only_a_run_that_dies_with_its_page_is_opened_with_control(owner, viewer, as_owner, signed_in):
    chat = a_run(owner, agent="chat", on_disconnect="grace", grace_seconds=5.0)
    plain = a_run(owner)
    assert 'data-role="control"' in page_of(as_owner, chat)
    assert 'data-role="viewer"' in page_of(signed_in(viewer), chat)
    assert 'data-role="viewer"' in page_of(as_owner, plain)


def test_who_may_not_stop_sees_no_stop(owner, teammate, viewer, operator, signed_in):
    run = a_run(owner)
    for actor, may in ((teammate, False), (viewer, False), (operator, True)):
        assert ('id="stop-form"' in page_of(signed_in(actor), run)) is may


@pytest.mark.parametrize("path", ["", "raw/", "state/", "extras/"])
def test_a_foreign_or_malformed_id_is_not_found(outsider, owner, as_owner, path):
    foreign = text_id("run", a_run(outsider).pk)
    for run_id in (foreign, text_id("run", new_id()), "run_x", "nonsense", "op_" + "0" * 32, "run_%00"):
        assert as_owner.get(f"/runs/{run_id}/{path}").status_code == 404


def test_an_open_question_has_its_form(owner, as_owner):
    scene = Scene(owner, agent="assistant")
    scene.ask("Send it?", APPROVAL)
    page = page_of(as_owner, scene.reload())
    assert "Send it?" in page
    assert '<button class="button primary" name="q-approve" value="true">' in page
    assert 'name="q-note"' in page


def test_a_question_ends_with_its_run_where_that_ends_first(owner, as_owner):
    scene = Scene(owner, agent="assistant")
    scene.ask("Send it?", APPROVAL)
    run = scene.reload()
    deadline = run.questions.get().expires_at - timedelta(minutes=1)
    Run.objects.filter(pk=run.pk).update(deadline_at=deadline)
    page = page_of(as_owner, scene.reload())
    assert f'until <time datetime="{deadline:%Y-%m-%dT%H:%M:%S}' in " ".join(page.split())


def test_only_who_may_answer_gets_the_form(owner, teammate, signed_in):
    scene = Scene(owner)
    scene.ask("Send it?", {"type": "string"})
    page = page_of(signed_in(teammate), scene.reload())
    assert "Only the person who started the run may answer" in page
    assert 'name="q-value"' not in page


def test_state_and_raw_are_json(owner, as_owner):
    run = Scene(owner).cancel(owner)
    base = f"/runs/{text_id('run', run.pk)}"
    state = as_owner.get(f"{base}/state/").json()
    assert state["status"] == "cancel_requested"
    assert state["cancel_id"].startswith("cancel_")
    assert as_owner.get(f"{base}/raw/").json()["status"] == "cancel_requested"


def test_extras_hold_the_forms_and_the_previews_only(owner, as_owner):
    scene = Scene(owner)
    scene.artifact()
    scene.ask("Name?", {"type": "string"})
    answer = as_owner.get(f"/runs/{text_id('run', scene.run.pk)}/extras/").content.decode()
    assert 'data-answer="q_' in answer
    assert "<h1>Report</h1>" in answer
    assert "<html" not in answer


def test_a_page_without_javascript_reloads_itself_unless_somebody_may_be_typing(owner, as_owner):
    running, asking = Scene(owner), Scene(owner)
    asking.ask("Name?", {"type": "string"})
    assert 'http-equiv="refresh"' in page_of(as_owner, running.reload())
    assert 'http-equiv="refresh"' not in page_of(as_owner, asking.reload())


def test_the_answer_carries_a_strict_policy_and_every_script_its_nonce(owner, as_owner):
    run = Scene(owner).complete("x")
    answer = as_owner.get(f"/runs/{text_id('run', run.pk)}/")
    policy = answer["Content-Security-Policy"]
    assert "unsafe" not in policy
    page = answer.content.decode()
    for tag in page.split("<script")[1:]:
        head = tag.split(">")[0]
        assert 'type="application/json"' in head or "nonce=" in head, head
    assert " style=" not in page
    assert " onclick=" not in page


def test_a_child_is_a_link_on_its_parents_page_and_the_other_way_round(owner, as_owner):
    scene = Scene(owner, title="The whole")
    child = a_child(scene.run, scene.fence, title="The part")
    page = page_of(as_owner, scene.run)
    assert f'href="/runs/{text_id("run", child.pk)}/">The part</a>' in page
    assert "run of its own" in page
    decide(cancels.request_cancel(run_id=child.pk, reason=CancelReason.USER), ring=silent)
    decide(children.count_end(run_id=child.pk), ring=silent)
    page = page_of(as_owner, scene.run)
    assert "child_cancelled: The child run was stopped (user)." in page
    assert f'href="/runs/{text_id("run", scene.run.pk)}/">The whole</a>' in page_of(as_owner, child)


def test_a_parent_that_waits_says_for_whom(owner, as_owner):
    scene = Scene(owner)
    a_child(scene.run, scene.fence)
    decide(waiting.wait(run_id=scene.run.pk, fence=scene.fence, wakes=0, waiting_for="child"), ring=silent)
    assert "Waits for the runs that it began." in page_of(as_owner, scene.run)
