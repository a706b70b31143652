"""Untrusted text cannot drive a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.cli.plain_text import SafeStream, safe, safe_line

CASES = [
    ("plain\ttext\n", "plain\ttext\n"),
    ("你好 👩‍👩‍👧", "你好 👩‍👩‍👧"),
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b[2J\x1b[Hcleared", "cleared"),
    ("\x1b]0;title\x07after", "after"),
    ("\x1b]8;;http://evil.invalid\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("\x1b]52;c;aGFjaw==\x07clip", "clip"),
    ("\x1bP+q544e\x1b\\dcs", "dcs"),
    ("\x9b31mc1", "c1"),
    ("\x9d0;t\x9cosc", "osc"),
    ("\x1bcreset", "reset"),
    ("\x1b(0lines", "lines"),
    ("back\x08\x08\x08space", "backspace"),
    ("over\rwrite", "overwrite"),
    ("bell\x07", "bell"),
    ("nul\x00del\x7f", "nuldel"),
    ("\u202egnp.exe\u202c", "gnp.exe"),
    ("a\u2028b\u2029c", "abc"),
    ("half\ud800", "half\ufffd"),
    ("open \x1b", "open "),
    ("open \x1b[31", "open "),
]


@pytest.mark.parametrize(("text", "shown"), CASES)
def test_sequences_and_controls_are_taken_out(text: str, shown: str) -> None:
    assert safe(text) == shown


@given(st.text(st.characters(codec=None), max_size=200))
def test_no_control_character_is_ever_left(text: str) -> None:
    for shown in (safe(text), safe_line(text)):
        assert not any(ord(c) < 32 and c not in "\t\n" for c in shown)
        assert not any(0x7F <= ord(c) <= 0x9F or 0xD800 <= ord(c) <= 0xDFFF for c in shown)
        shown.encode()
    assert "\n" not in safe_line(text)


@pytest.mark.parametrize(("text", "shown"), CASES)
def test_a_sequence_that_comes_in_pieces_is_taken_out_as_well(text: str, shown: str) -> None:
    for cut in range(len(text) + 1):
        stream = SafeStream()
        assert stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.finish() == shown, cut
    stream = SafeStream()
    assert "".join(stream.feed(c) for c in text) + stream.finish() == shown


def test_a_sequence_without_an_end_holds_back_a_bounded_amount() -> None:
    stream = SafeStream(hold_characters=10)
    shown = stream.feed("\x1b]0;") + "".join(stream.feed("x") for _ in range(50)) + stream.feed("end")
    assert shown.endswith("end")
    assert "\x1b" not in shown


def test_a_line_is_cut_to_its_limit() -> None:
    assert safe_line("x" * 300, 10) == "x" * 9 + "…"
    assert safe_line("  a \n b\t c ") == "a b c"
