"""Errors of the libraries: where the host was reached, the transport may be blocked; else it is the network."""

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError, InvalidMessage, InvalidStatus
from websockets.frames import Close
from websockets.http11 import Headers, Response

from runs.reading.errors import Cut
from streaming.client.cuts import cut_by_http, cut_by_socket, last_word


def test_a_host_that_is_not_there_blocks_nothing() -> None:
    assert not cut_by_http(httpx.ConnectError("refused")).is_blocked
    assert not cut_by_socket(ConnectionRefusedError()).is_blocked
    assert not cut_by_socket(InvalidStatus(Response(503, "", Headers({"Retry-After": "3"})))).is_blocked
    assert cut_by_socket(InvalidStatus(Response(503, "", Headers({"Retry-After": "3"})))).retry_after == 3.0


def test_an_answer_that_is_none_of_ours_may_be_a_proxys() -> None:
    assert cut_by_http(httpx.ReadTimeout("")).is_blocked
    assert str(cut_by_http(httpx.ReadTimeout(""))) == "ReadTimeout"
    assert cut_by_socket(InvalidStatus(Response(403, "", Headers()))).is_blocked
    assert cut_by_socket(InvalidMessage("no HTTP")).is_blocked
    assert cut_by_socket(TimeoutError()).is_blocked


def test_a_final_close_code_is_the_last_word_even_without_its_frame() -> None:
    assert last_word(ConnectionClosedError(Close(4504, ""), None)) == {"type": "closing", "code": 4504, "reason": ""}
    for close in (None, Close(1000, ""), Close(1006, ""), Close(4000, "slow")):
        with pytest.raises(Cut):
            last_word(ConnectionClosedError(close, None))
