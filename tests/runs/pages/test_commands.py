import pytest

from runs.ids import new_id, text_id
from runs.models import Question, Run
from tests.builders import a_run
from tests.runs.pages.scenes import APPROVAL, Scene


def stop(client, run, **headers):
    return client.post(f"/runs/{text_id('run', run.pk)}/stop/", headers=headers)


def test_stop_is_a_plain_post_that_leads_back_to_the_page(owner, as_owner):
    run = a_run(owner)
    answer = stop(as_owner, run)
    assert (answer.status_code, answer["Location"]) == (303, f"/runs/{text_id('run', run.pk)}/")
    run.refresh_from_db()
    assert run.status == "cancelled"


def test_a_repeated_stop_is_the_same_stop(owner, as_owner):
    scene = Scene(owner)
    scene.tool("create_invoice", effect="idempotent", outcome=None)
    first = stop(as_owner, scene.run, Accept="application/json").json()
    second = stop(as_owner, scene.run, Accept="application/json").json()
    assert first["status"] == "cancel_requested"
    assert first["cancel_id"] == second["cancel_id"]


def test_a_stop_that_came_too_late_says_so(owner, as_owner):
    run = Scene(owner).complete("x")
    answer = stop(as_owner, run)
    assert answer["Location"].endswith("?stop=late")
    assert b"It finished before your stop took effect." in as_owner.get(answer["Location"]).content
    assert stop(as_owner, run, Accept="application/json").json()["too_late"] is True


def test_stop_needs_a_post_and_the_right(owner, teammate, viewer, operator, outsider, signed_in, as_owner):
    run = a_run(owner)
    assert as_owner.get(f"/runs/{text_id('run', run.pk)}/stop/").status_code == 405
    for actor, status in ((viewer, 403), (teammate, 403), (outsider, 404)):
        assert stop(signed_in(actor), run).status_code == status
    run.refresh_from_db()
    assert run.status == "queued"
    assert stop(signed_in(operator), run).status_code == 303


def test_the_note_of_a_stop_may_hold_anything(owner, as_owner):
    run = a_run(owner)
    as_owner.post(f"/runs/{text_id('run', run.pk)}/stop/", {"note": "\x00" + "ü" * 5000})
    run.refresh_from_db()
    assert run.status == "cancelled"


@pytest.mark.parametrize("run_id", ["run_x", "run_" + "0" * 32, "op_" + "0" * 32])
def test_stopping_what_is_not_there_is_not_found(as_owner, run_id):
    assert as_owner.post(f"/runs/{run_id}/stop/").status_code == 404


def asked(owner, schema):
    scene = Scene(owner)
    question_id = scene.ask("Well?", schema)
    return scene.reload(), f"/runs/{text_id('run', scene.run.pk)}/answers/{text_id('q', question_id)}/"


@pytest.mark.parametrize(
    ("schema", "posted", "value"),
    [
        ({"type": "string"}, {"q-value": "two\r\nlines"}, "two\nlines"),
        ({"type": "boolean"}, {"q-value": "false"}, False),
        ({"type": "integer", "minimum": 1}, {"q-value": "7"}, 7),
        ({"type": "number"}, {"q-value": "2.5"}, 2.5),
        ({"enum": ["red", 1]}, {"q-value": "1"}, 1),
        (APPROVAL, {"q-approve": "true", "q-note": ""}, {"approve": True}),
        (APPROVAL, {"q-approve": "false", "q-note": "no"}, {"approve": False, "note": "no"}),
        ({"type": "object", "properties": {}, "additionalProperties": True}, {"q-value": '{"a": [1]}'}, {"a": [1]}),
    ],
)
def test_an_answer_reaches_the_run_as_its_schema_says(owner, as_owner, schema, posted, value):
    _run, address = asked(owner, schema)
    assert as_owner.post(address, posted).status_code == 303
    question = Question.objects.get()
    assert (question.state, question.value) == ("answered", {"value": value})


@pytest.mark.parametrize(
    ("schema", "posted"),
    [
        ({"type": "string"}, {"q-value": ""}),
        ({"type": "string", "maxLength": 3}, {"q-value": "long"}),
        ({"type": "string"}, {"q-value": "a\x00"}),
        ({"type": "integer"}, {"q-value": "x"}),
        ({"type": "number"}, {"q-value": "nan"}),
        ({"enum": ["a"]}, {"q-value": '"b"'}),
        ({"type": "string", "pattern": "^a+$"}, {"q-value": "b"}),
        ({"type": "object", "properties": {}}, {"q-value": "{"}),
    ],
)
def test_a_wrong_answer_comes_back_with_its_form(owner, as_owner, schema, posted):
    _run, address = asked(owner, schema)
    page = as_owner.post(address, posted)
    assert page.status_code == 400
    assert b"data-answer=" in page.content
    assert Question.objects.get().state == "open"


def test_the_second_answer_is_told_that_it_was_late(owner, as_owner):
    _run, address = asked(owner, {"type": "string"})
    as_owner.post(address, {"q-value": "first"})
    answer = as_owner.post(address, {"q-value": "second"}, follow=True)
    assert b"your answer was not used" in answer.content
    assert Question.objects.get().value == {"value": "first"}


def test_who_may_not_answer_cannot(owner, teammate, viewer, outsider, signed_in):
    _run, address = asked(owner, {"type": "string"})
    for actor, status in ((teammate, 403), (viewer, 403), (outsider, 404)):
        assert signed_in(actor).post(address, {"q-value": "x"}).status_code == status


def test_a_question_of_another_run_is_not_found(owner, as_owner):
    _run, address = asked(owner, {"type": "string"})
    question = address.split("/")[-2]
    other = text_id("run", a_run(owner).pk)
    assert as_owner.post(f"/runs/{other}/answers/{question}/", {"q-value": "x"}).status_code == 404
    assert as_owner.post(f"/runs/{other}/answers/{text_id('q', new_id())}/", {}).status_code == 404
    assert Run.objects.filter(status="waiting").count() == 1
