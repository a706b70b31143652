"""Fast deltas are the very frames that the general way makes."""

import json
from datetime import UTC, datetime

import pytest

from runs.execution.deltas import Deltas
from runs.frames import Origin, draft
from runs.ids import new_id, text_id


@pytest.mark.parametrize(
    "text", ["", "plain", '"quoted" \\ \n', "中文 😀", "\u2028\u0085", "nul \x00 lone \ud800", '""}}', "2000-01-01"]
)
def test_a_delta_equals_the_general_draft(text: str) -> None:
    origin, step, message = Origin(new_id(), 3, new_id()), new_id(), new_id()
    at = datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC)
    fast = Deltas(origin, step_id=step, message_id=message).draft(text, at=at)
    data = {"message_id": text_id("msg", message), "delta": text}
    assert fast == draft(origin, "text.delta", data, at=at, step_id=step)


def test_each_delta_has_its_own_time() -> None:
    origin = Origin(new_id(), 1, new_id())
    deltas = Deltas(origin, step_id=new_id(), message_id=new_id())
    times = [datetime(2026, 11, 29, 12, 0, 0, at, tzinfo=UTC) for at in (1_000, 1_999, 2_000, 1_000)]
    stamps = [json.loads(deltas.draft("x", at=at).text)["ts"][-4:-1] for at in times]
    assert stamps == ["001", "001", "002", "001"]
