"""HTTP answers: what is final, what is bridged, what a page gives in place of a stream."""

import json
from typing import Any

import pytest

from runs.reading.errors import BadProtocol, Cut, Forbidden, NotSignedIn, StreamRefused, UnknownRun
from streaming.client.answers import ENDED, judge, judge_handshake, read_gone, read_page

CURSOR = "st_" + "2" * 32 + ":5"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, BadProtocol), (401, NotSignedIn), (403, Forbidden), (404, UnknownRun), (422, StreamRefused),
     (301, StreamRefused)],
)  # fmt: skip
def test_a_refusal_is_final_and_says_what_the_server_said(status: int, kind: type[StreamRefused]) -> None:
    body = json.dumps({"error": {"code": "x", "message": "No such run."}}).encode()
    error = judge(status, {"location": "https://elsewhere"}, body)
    assert type(error) is kind
    assert ("elsewhere" if status == 301 else "No such run.") in str(error)


@pytest.mark.parametrize(("status", "is_blocked"), [(429, False), (502, False), (503, False), (500, True), (501, True)])
def test_a_server_that_cannot_is_asked_again(status: int, is_blocked: bool) -> None:
    error = judge(status, {"retry-after": "7"}, b"<html>")
    assert isinstance(error, Cut)
    assert (error.retry_after, error.is_blocked) == (7.0, is_blocked)
    assert judge_handshake(status, {}).is_blocked == is_blocked
    assert judge_handshake(403, {}).is_blocked


def a_page(**changes: Any) -> bytes:
    page = {
        "object": "list", "data": [{"seq": 1}], "has_more": False, "next_cursor": CURSOR, "stream_id": "st_2",
        "head_seq": 5, "status": "running", "is_ended": False,
    }  # fmt: skip
    return json.dumps(page | changes).encode()


def types_of(body: bytes, *, is_tail: bool = False) -> list[Any]:
    return [frame.get("type", "event") for frame in read_page(body, is_tail=is_tail).frames]


def test_a_page_gives_the_frames_of_a_stream() -> None:
    assert types_of(a_page(has_more=True)) == ["ready", "event"]
    assert types_of(a_page()) == ["ready", "event", "caught_up"]
    assert types_of(a_page(is_ended=True, has_more=True)) == ["ready", "event"]
    assert types_of(a_page(is_ended=True)) == ["ready", "event", "caught_up", "closing"]
    assert types_of(a_page(is_ended=True), is_tail=True) == ["ready", "event", "caught_up"]
    assert types_of(a_page(data=[], snapshot={"type": "snapshot"})) == ["ready", "snapshot", "caught_up"]
    assert read_page(a_page(is_ended=True), is_tail=False).frames[-1] == ENDED


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b"null"])
def test_what_is_no_page_may_be_a_proxys(body: bytes) -> None:
    with pytest.raises(Cut) as cut:
        read_page(body, is_tail=False)
    assert cut.value.is_blocked


def test_a_410_is_a_gap() -> None:
    body = json.dumps({"error": {"details": {"reason": "ahead", "earliest_seq": 3}}}).encode()
    assert read_gone(body, CURSOR) == {"type": "gap", "requested": CURSOR, "earliest_seq": 3, "reason": "ahead"}
    assert read_gone(b"", None)["reason"] == "trimmed"
