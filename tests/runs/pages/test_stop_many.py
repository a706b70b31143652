import pytest

from runs.ids import text_id
from tests.builders import a_run
from tests.runs.pages.scenes import Scene


def stop(client, *runs):
    answer = client.post("/runs/stop/", {"run": [text_id("run", run.pk) for run in runs]})
    assert answer.status_code == 200
    return answer.content.decode()


def test_each_run_gets_its_result_and_one_that_is_refused_keeps_no_other(owner, teammate, as_owner):
    queued, foreign = a_run(owner, title="queued one"), a_run(teammate, title="not mine")
    running, done = Scene(owner, title="running one"), Scene(owner, title="finished one")
    done.complete("x")
    page = stop(as_owner, queued, foreign, running.run, done.run)
    assert "Stop of 4 runs" in page
    assert "2 of 4 are recorded." in page
    assert "Stopped at once." in page
    assert "Recorded. No new step will start." in page
    assert "It finished before your stop took effect." in page
    assert "Your role does not allow this" in page
    queued.refresh_from_db()
    foreign.refresh_from_db()
    assert [r.status for r in (queued, foreign, running.reload(), done.reload())] == [
        "cancelled", "queued", "cancel_requested", "completed",
    ]  # fmt: skip


def test_sent_again_it_changes_nothing(owner, as_owner):
    scene = Scene(owner)
    stop(as_owner, scene.run)
    version = scene.reload().version
    assert "It had been asked to stop before." in stop(as_owner, scene.run)
    assert scene.reload().version == version


def test_nothing_chosen_and_nonsense_stop_nothing(owner, outsider, as_owner):
    foreign = a_run(outsider, title="secret of umbrella")
    assert "You chose no run, so nothing was stopped." in stop(as_owner)
    assert as_owner.post("/runs/stop/", {"run": ["run_1", "x"]}).status_code == 200
    assert "secret of umbrella" not in stop(as_owner, foreign)
    foreign.refresh_from_db()
    assert foreign.status == "queued"


def test_a_look_is_no_stop(as_owner):
    assert as_owner.get("/runs/stop/").status_code == 405


@pytest.mark.parametrize(("who", "boxes"), [("owner", 1), ("operator", 2), ("viewer", 0)])
def test_only_runs_that_this_person_could_stop_can_be_chosen(request, owner, teammate, signed_in, who, boxes):
    a_run(owner)
    a_run(teammate)
    Scene(owner).complete("x")
    page = signed_in(request.getfixturevalue(who)).get("/runs/").content.decode()
    assert page.count('name="run"') == boxes
    assert ('id="stop-many"' in page) == (who != "viewer")


def test_the_rows_of_the_result_have_no_boxes(owner, as_owner):
    run = a_run(owner)
    asked = f"/runs/rows/?ids={text_id('run', run.pk)}"
    assert 'name="run"' in as_owner.get(asked).content.decode()
    assert 'class="choose"' not in as_owner.get(asked + "&plain=1").content.decode()
