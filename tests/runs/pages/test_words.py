import json

from runs.pages import words
from runs.states import RECEIPT_WORD, CancelReason, OperationState, QuestionState, Status, StepState


def test_every_state_has_a_word():
    assert set(words.STATUS) == {s.value for s in Status}
    assert set(words.STEP) >= {s.value for s in StepState}
    assert set(words.OPERATION) == {s.value for s in OperationState} | {"stopped"}  # as the fold says
    assert set(words.QUESTION) == {s.value for s in QuestionState}
    assert set(words.CANCEL_REASON) == {r.value for r in CancelReason}
    assert set(words.RECEIPT) >= set(RECEIPT_WORD.values())


def test_no_two_ends_of_a_run_share_icon_and_colour():
    ends = [words.STATUS[s] for s in ("completed", "failed", "cancelled", "needs_reconciliation")]
    assert len({(w.icon, w.tone) for w in ends}) == 4


def test_every_icon_is_in_the_sprite():
    from pathlib import Path

    sprite = Path("runs/static/runs/icons.svg").read_text()
    tables = (words.STATUS, words.STEP, words.OPERATION, words.RECEIPT, words.EFFECT, words.KIND)
    for table in tables:
        for word in table.values():
            assert f'id="{word.icon}"' in sprite


def test_the_tables_for_scripts_are_json():
    tables = json.loads(json.dumps(words.words_for_scripts()))
    assert tables["status"]["cancelled"] == {"text": "Stopped", "icon": "stopped", "tone": "grey"}
