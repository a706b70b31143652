"""Fast deltas are the very frames that the general way makes."""

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
