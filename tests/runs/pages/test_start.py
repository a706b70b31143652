import re
from urllib.parse import urlencode

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from runs.ids import text_id
from runs.models import Document, Run

CHAT = {"agent": "chat", "do": "start", "f-prompt": "Say hello"}


def key_of(page):
    return re.search(rb'name="key" value="([^"]+)"', page.content)[1].decode()


def start(client, **changes):
    return client.post("/runs/new/?agent=chat", CHAT | {"key": "page-one"} | changes)


def test_the_form_is_made_from_the_agents_input_model(as_owner):
    page = as_owner.get("/runs/new/?agent=billing").content.decode()
    assert 'name="f-customer"' in page
    assert re.search(r'type="number" name="f-cents"[^>]* min="1" max="10000000"', page)
    assert "Who gets the invoice?" in page
    assert 'value="EUR"' in page


def test_what_is_chosen_by_default_is_ticked(as_owner):
    page = as_owner.get("/runs/new/?agent=assistant").content.decode()
    assert re.search(r'value="&quot;search_documents&quot;" checked', page)


def test_every_listed_agent_has_a_form(as_owner):
    page = as_owner.get("/runs/new/").content.decode()
    for name in re.findall(r'href="\?agent=([a-z]+)"', page):
        assert as_owner.get(f"/runs/new/?agent={name}").status_code == 200


def test_a_start_answers_with_the_runs_page(owner, as_owner):
    answer = start(as_owner)
    run = Run.objects.get()
    assert (answer.status_code, answer["Location"]) == (303, f"/runs/{text_id('run', run.pk)}/")
    assert run.created_by == owner.user
    assert run.input["prompt"] == "Say hello"


def test_each_page_has_a_key_of_its_own(as_owner):
    assert key_of(as_owner.get("/runs/new/?agent=chat")) != key_of(as_owner.get("/runs/new/?agent=chat"))


def test_a_double_click_opens_the_same_run(as_owner):
    first, second = start(as_owner), start(as_owner)
    assert first["Location"] == second["Location"]
    assert Run.objects.count() == 1


def test_back_with_other_words_starts_nothing_and_offers_both_ways(as_owner):
    start(as_owner)
    page = start(as_owner, **{"f-prompt": "Something else"})
    run = Run.objects.get()
    assert page.status_code == 422
    assert f"/runs/{text_id('run', run.pk)}/" in page.content.decode()
    assert "Something else" in page.content.decode()
    again = start(as_owner, key=key_of(page), **{"f-prompt": "Something else"})
    assert again.status_code == 303
    assert Run.objects.count() == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"f-prompt": ""}, "This is needed."),
        ({"f-prompt": "   "}, "This is needed."),
        ({"f-prompt": "a\x00b"}, "NUL"),
        ({"f-prompt": "x" * 100_001}, "too long"),
    ],
)
def test_a_wrong_field_is_named_and_the_input_is_kept(as_owner, changes, message):
    page = start(as_owner, **changes)
    assert page.status_code == 400
    text = page.content.decode()
    assert message in text
    assert 'aria-invalid="true"' in text
    assert key_of(page) == "page-one"
    assert not Run.objects.exists()


def test_a_lone_surrogate_is_refused_or_replaced_but_never_breaks(as_owner):
    body = urlencode({"agent": "chat", "do": "start", "key": "k"}) + "&f-prompt=%ED%A0%80"
    answer = as_owner.post("/runs/new/", body, content_type="application/x-www-form-urlencoded")
    assert answer.status_code in (303, 400)


@pytest.mark.parametrize(
    ("cents", "message"),
    [("0", "The least is 1."), ("1.5", "Write a whole number."), ("10000001", "The most is"), ("x", "whole number"),
     ("9" * 5000, "whole number"), ("", "This is needed.")],
)  # fmt: skip
def test_a_number_is_checked_in_words(as_owner, cents, message):
    page = as_owner.post(
        "/runs/new/", {"agent": "billing", "do": "start", "key": "k", "f-customer": "A", "f-cents": cents}
    )
    assert page.status_code == 400
    assert message in page.content.decode()


def test_what_only_the_agents_model_knows_is_shown_at_its_field(as_owner):
    data = {"agent": "billing", "do": "start", "key": "k", "f-customer": "A", "f-cents": "5", "f-currency": "euros"}
    page = as_owner.post("/runs/new/", data)
    assert page.status_code == 400
    assert 'id="error-f-currency"' in page.content.decode()


def test_an_unknown_agent_is_not_found(as_owner):
    assert as_owner.get("/runs/new/?agent=nobody").status_code == 404
    assert as_owner.post("/runs/new/", {"agent": "<b>\x00", "do": "start"}).status_code == 404


def test_a_viewer_cannot_start(viewer, signed_in):
    client = signed_in(viewer)
    assert "Your role is viewer" in client.get("/runs/new/").content.decode()
    assert start(client).status_code == 403
    assert client.post("/runs/demo/").status_code == 403
    assert not Run.objects.exists()


def test_the_csrf_token_is_needed(owner):
    from django.test import Client

    client = Client(enforce_csrf_checks=True)
    client.force_login(owner.user)
    for address in ("/runs/new/", "/runs/demo/", "/documents/"):
        answer = client.post(address, CHAT)
        assert answer.status_code == 403
        assert b"Please reload the page" in answer.content
    assert not Run.objects.exists()


def test_documents_are_added_without_losing_what_was_typed(as_owner):
    files = [SimpleUploadedFile("a.txt", b"Alpha says no."), SimpleUploadedFile("b.txt", b"Beta says yes.")]
    data = {"agent": "researcher", "do": "upload", "key": "kept", "f-question": "Who says no?", "files": files}
    page = as_owner.post("/runs/new/", data)
    text = page.content.decode()
    assert page.status_code == 200
    assert "Who says no?" in text
    assert key_of(page) == "kept"
    assert {d.name for d in Document.objects.all()} == {"a.txt", "b.txt"}
    assert len(re.findall(r'name="f-documents"[^>]* checked', text)) == 2
    assert not Run.objects.exists()


def test_the_sample_documents_are_one_click_away(as_owner):
    page = as_owner.post("/runs/new/", {"agent": "researcher", "do": "samples", "key": "k"})
    assert Document.objects.count() > 0
    assert "This is needed" not in page.content.decode()


def test_chosen_documents_reach_the_run_and_none_means_all(as_owner):
    as_owner.post("/documents/", {"do": "samples"})
    document = text_id("doc", Document.objects.first().pk)
    data = {"agent": "researcher", "do": "start", "key": "1", "f-question": "What?", "f-documents": [document]}
    as_owner.post("/runs/new/", data)
    as_owner.post("/runs/new/", data | {"key": "2", "f-documents": []})
    inputs = [r.input["documents"] for r in Run.objects.order_by("created_at")]
    assert inputs == [[document], "all"]


def test_a_deadline_is_one_of_the_offered_ones(as_owner):
    start(as_owner, deadline="300")
    start(as_owner, key="two", deadline="NaN")
    short, default = Run.objects.order_by("created_at")
    assert (short.deadline_at - short.created_at).total_seconds() == pytest.approx(300, abs=5)
    assert (default.deadline_at - default.created_at).total_seconds() > 300


def test_the_demo_run_needs_nothing_and_is_started_once(as_owner):
    first = as_owner.post("/runs/demo/", {"key": "demo"})
    second = as_owner.post("/runs/demo/", {"key": "demo"})
    assert first.status_code == 303
    assert first["Location"] == second["Location"]
    assert Document.objects.exists()


def test_another_run_can_be_started_like_one_that_is_there(owner, outsider, as_owner, signed_in):
    start(as_owner, **{"f-prompt": "my own words"})
    like = text_id("run", Run.objects.get().pk)
    assert b"my own words" in as_owner.get(f"/runs/new/?agent=chat&like={like}").content
    assert b"my own words" not in signed_in(outsider).get(f"/runs/new/?agent=chat&like={like}").content


def test_the_old_run_behind_a_key_is_only_ever_ones_own(owner, teammate, as_owner, signed_in):
    start(as_owner)
    answer = start(signed_in(teammate))
    assert answer.status_code == 303
    assert Run.objects.count() == 2
