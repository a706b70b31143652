"""POST /runs:cancel: a result for each run, none of which keeps another from stopping."""

from runs.ids import text_id
from tests.builders import a_run
from tests.runs.pages.scenes import Scene


def ask(caller, **body):
    answer = caller.post("/runs:cancel", body)
    return answer.status_code, answer.json()


def test_each_id_gets_its_result_in_its_order(owner, teammate, outsider):
    queued, foreign, unseen = a_run(owner.actor), a_run(teammate.actor), a_run(outsider.actor)
    done = Scene(owner.actor)
    done.complete("x")
    ids = [text_id("run", r.pk) for r in (queued, foreign, unseen, done.run)] + ["nonsense"]
    status, answer = ask(owner, ids=ids, note="all of it")
    assert status == 200
    results = answer["data"]
    assert [r["run_id"] for r in results] == ids
    assert [(r["status"], (r["error"] or {}).get("code")) for r in results] == [
        ("cancelled", None), (None, "forbidden"), (None, "not_found"), ("completed", None), (None, "not_found"),
    ]  # fmt: skip
    assert results[0]["cancel"]["note"] == "all of it"
    assert [r["cancel"]["too_late"] for r in results if r["cancel"]] == [False, True]


def test_it_is_bounded_and_says_what_is_missing(owner):
    assert ask(owner)[0] == 400
    assert ask(owner, ids=[])[0] == 400
    assert ask(owner, ids=["run_x"] * 101)[0] == 400
