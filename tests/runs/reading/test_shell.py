"""What a shell's client keeps over a cut: its place in the output, and every keystroke that was not taken."""

from typing import Any

from runs.reading.shell import AHEAD_BYTES, PIECE_BYTES, Desk
from runs.shell_frames import INPUT, unpack


def ready(taken: int = 0, **changes: Any) -> dict[str, Any]:
    return {"type": "ready", "role": "pilot", "generation": 3, "end": 0, "taken": taken, "continues": False, **changes}


def sent(desk: Desk) -> list[tuple[int, bytes]]:
    frames = []
    while (frame := desk.to_send()) is not None:
        channel, offset, data = unpack(frame)
        assert channel == INPUT
        frames.append((offset, data))
    return frames


def test_what_is_typed_is_numbered_from_where_input_stands() -> None:
    desk = Desk()
    desk.take(ready(7))
    assert desk.type(b"abc")
    assert sent(desk) == [(7, b"abc")]
    assert sent(desk) == []
    assert desk.query == {"role": "pilot", "had": "3"}


def test_what_is_typed_before_the_terminal_is_there_goes_in_first() -> None:
    """`outlive shell open` is in raw mode before its shell has begun; people type on."""
    desk = Desk()
    assert desk.type(b"early ")
    desk.cut()
    assert sent(desk) == []
    desk.take(ready(7))
    desk.type(b"late")
    assert b"".join(data for _, data in sent(desk)) == b"early late"
    assert desk.taken == 7


def test_what_is_typed_early_has_no_effect_for_a_viewer() -> None:
    assert not Desk("viewer").type(b"x")
    desk = Desk()
    desk.type(b"early")
    desk.take({**ready(), "role": "viewer", "generation": None})
    assert desk.waits == 0
    desk.cut()
    assert not desk.type(b"x"), "nobody said that we would be in control"


def test_after_a_cut_what_was_not_taken_is_sent_again_and_nothing_else() -> None:
    desk = Desk()
    desk.take(ready())
    desk.type(b"abcdef")
    sent(desk)
    desk.take({"type": "taken", "offset": 2})
    desk.cut()
    assert desk.type(b"gh")
    assert sent(desk) == []
    desk.take(ready(4, generation=4, continues=True))
    assert sent(desk) == [(4, b"efgh")]


def test_what_was_not_taken_is_forgotten_where_somebody_else_has_typed_since() -> None:
    desk = Desk()
    desk.take(ready())
    desk.type(b"rm -rf x")
    sent(desk)
    desk.cut()
    desk.take(ready(3, generation=9))
    assert sent(desk) == []
    desk.type(b"ls")
    assert sent(desk) == [(3, b"ls")]


def test_a_displaced_pilot_types_no_more_and_takes_nothing_back_by_itself() -> None:
    desk = Desk()
    desk.take(ready())
    desk.type(b"abc")
    desk.take({"type": "pilot", "generation": 4, "mine": False, "name": "x"})
    assert sent(desk) == []
    assert not desk.type(b"d")
    desk.cut()
    assert desk.query == {"role": "viewer"}
    desk.take({**ready(), "role": "viewer", "generation": None})
    desk.take({"type": "pilot", "generation": 5, "mine": True, "name": "me", "taken": 40})
    desk.type(b"mine")
    assert sent(desk) == [(40, b"mine")]


def test_a_large_paste_goes_in_pieces_and_waits_for_room() -> None:
    desk = Desk()
    desk.take(ready())
    desk.type(b"x" * (AHEAD_BYTES + 5))
    pieces = sent(desk)
    assert max(len(data) for _, data in pieces) == PIECE_BYTES
    assert sum(len(data) for _, data in pieces) == AHEAD_BYTES
    desk.take({"type": "taken", "offset": 3})
    assert sent(desk) == [(AHEAD_BYTES, b"x" * 3)]


def test_the_server_may_ask_for_what_is_missing_and_shut_the_input() -> None:
    desk = Desk()
    desk.take(ready())
    desk.type(b"abcdef")
    sent(desk)
    desk.take({"type": "input", "problem": "gap", "taken": 4})
    assert sent(desk) == [(4, b"ef")]
    desk.take({"type": "input", "problem": "shut", "taken": 0})
    assert desk.waits == 0
