import pytest

from runs.ids import text_id
from runs.models import Run
from tests.builders import a_child, a_claim, a_run
from tests.runs.pages.scenes import Scene, every_state

HOSTILE = "<script>alert(1)</script>\"'&"


def ids_on(page):
    return [row.split('"')[0] for row in page.content.decode().split('<tr id="')[1:]]


def test_the_list_shows_every_status_by_word_and_icon(owner, as_owner):
    every_state(owner)
    page = as_owner.get("/runs/").content.decode()
    for word in ("Queued", "Running", "Waiting", "Stopping…", "Stopped", "Completed", "Failed", "Being verified"):
        assert f"<span>{word}</span>" in page
    assert "icons.svg#verifying" in page


@pytest.mark.parametrize(
    ("show", "names"),
    [
        ("running", {"queued", "running", "waiting", "retried"}),
        ("stopping", {"stopping"}),
        ("verifying", {"verifying"}),
        ("failed", {"failed"}),
        (
            "nonsense",
            set("queued running waiting stopping stopped completed failed verifying retried stopped_command".split()),
        ),
    ],
)
def test_a_filter_is_a_link_and_shows_only_its_runs(owner, as_owner, show, names):
    runs = every_state(owner)
    page = as_owner.get("/runs/", {"show": show})
    assert set(ids_on(page)) == {text_id("run", runs[name].pk) for name in names}


def test_mine_leaves_out_the_runs_of_others(owner, teammate, as_owner):
    mine, theirs = a_run(owner), a_run(teammate)
    assert ids_on(as_owner.get("/runs/?show=mine")) == [text_id("run", mine.pk)]
    assert set(ids_on(as_owner.get("/runs/"))) == {text_id("run", r.pk) for r in (mine, theirs)}


def test_runs_of_another_tenant_are_not_there(owner, outsider, as_owner):
    a_run(outsider, title="secret of umbrella")
    page = as_owner.get("/runs/")
    assert b"secret of umbrella" not in page.content
    assert b"No runs yet" in page.content


def test_the_empty_list_offers_the_command_and_a_demo_run(as_owner):
    page = as_owner.get("/runs/").content.decode()
    assert "outlive run start" in page
    assert 'action="/runs/demo/"' in page


def test_a_viewer_is_offered_no_start(viewer, signed_in):
    page = signed_in(viewer).get("/runs/").content.decode()
    assert "/runs/demo/" not in page
    assert "New run" not in page


def test_a_hostile_title_stays_text(owner, as_owner):
    a_run(owner, title=HOSTILE)
    page = as_owner.get("/runs/").content.decode()
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)" in page


def test_pages_keep_the_filter_in_the_address(owner, as_owner):
    for number in range(26):
        a_run(owner, title=f"run {number}")
    first = as_owner.get("/runs/?show=running")
    assert len(ids_on(first)) == 25
    assert b"show=running&amp;page=2" in first.content
    assert len(ids_on(as_owner.get("/runs/?show=running&page=2"))) == 1
    assert len(ids_on(as_owner.get("/runs/?page=999999999999999999999"))) == 1


def test_the_current_step_is_named(owner, as_owner):
    scene = Scene(owner)
    scene.tool("read_document", outcome=None)
    assert b"read_document" in as_owner.get("/runs/").content


def test_rows_say_whether_the_filter_still_fits_them(owner, as_owner):
    done, queued = Scene(owner).complete("x"), a_run(owner)
    ids = ",".join(text_id("run", r.pk) for r in (done, queued))
    page = as_owner.get("/runs/rows/", {"ids": ids, "show": "running"}).content.decode()
    rows = {part.split('"')[0]: part for part in page.split('<tr id="')[1:]}
    assert 'data-matches="0"' in rows[text_id("run", done.pk)]
    assert 'data-matches="1"' in rows[text_id("run", queued.pk)]
    assert "<html" not in page


def test_rows_ignore_what_is_no_id_and_what_is_foreign(owner, outsider, as_owner):
    foreign = a_run(outsider)
    ids = f"nonsense,,run_{'z' * 32},{text_id('run', foreign.pk)}"
    assert ids_on(as_owner.get("/runs/rows/", {"ids": ids})) == []


def test_rows_without_ids_are_the_first_page(owner, as_owner):
    run = a_run(owner)
    assert ids_on(as_owner.get("/runs/rows/")) == [text_id("run", run.pk)]


def test_signed_out_visitors_are_sent_to_sign_in(db, client):
    answer = client.get("/runs/")
    assert answer.status_code == 302
    assert answer["Location"] == "/login/?next=/runs/"


def test_a_person_without_a_workspace_is_told_so(client, django_user_model):
    client.force_login(django_user_model.objects.create_user("alone", password="x" * 12))
    answer = client.get("/runs/")
    assert answer.status_code == 403
    assert b"You belong to no workspace yet" in answer.content


def test_a_list_costs_the_same_queries_for_one_run_and_for_many(owner, as_owner, django_assert_max_num_queries):
    for _ in range(20):
        a_run(owner)
    with django_assert_max_num_queries(8):
        as_owner.get("/runs/")


def test_a_child_is_listed_only_while_it_needs_a_person(owner, as_owner):
    run = a_run(owner)
    child = a_child(run, a_claim(run))
    assert ids_on(as_owner.get("/runs/")) == [text_id("run", run.pk)]
    Run.objects.filter(pk=child.pk).update(status="waiting", waiting_for="input")
    assert set(ids_on(as_owner.get("/runs/"))) == {text_id("run", run.pk), text_id("run", child.pk)}
