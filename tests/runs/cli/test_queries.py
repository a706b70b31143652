"""Questions of a program to the terminal are taken out of what is only shown; everything else stays, byte for byte."""

import pytest

from runs.cli.queries import Sieve

QUESTIONS = [
    b"\x1b[c", b"\x1b[>c", b"\x1b[=0c", b"\x1b[6n", b"\x1b[?6n", b"\x1b]11;?\x07", b"\x1b]4;1;?\x1b\\", b"\x1b[?2026$p",
    b"\x1bP$qm\x1b\\", b"\x1bP+q544e\x1b\\", b"\x1b[18t", b"\x1b[>q", b"\x1b[?u", b"\x1bZ", b"\x05", b"\x1b[14;2t",
]  # fmt: skip
PLAIN = [
    b"\x1b[1;31mred\x1b[0m", b"\x1b]0;title\x07", b"\x1b[2J\x1b[H", b"\x1b[22;0t", b"\x1b[?1049h", "家族 é".encode(),
    b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", b"\xff\xfe", b"\x1b[10;20H", b"\x1b(B", b"a\x1b[3 q",
]  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_a_question_is_taken_out_wherever_it_is_cut(question: bytes, step: int) -> None:
    sieve, text = Sieve(), b"a" + question + b"b\x1b[1mc"
    got = b"".join(sieve.take_out(text[i : i + step]) for i in range(0, len(text), step))
    assert got + sieve.rest() == b"ab\x1b[1mc"


@pytest.mark.parametrize("plain", PLAIN)
@pytest.mark.parametrize("step", [1, 2, 1000])
def test_what_is_no_question_stays(plain: bytes, step: int) -> None:
    sieve, text = Sieve(), plain * 3 + b"."
    got = b"".join(sieve.take_out(text[i : i + step]) for i in range(0, len(text), step))
    assert got + sieve.rest() == text


def test_what_only_begins_like_a_question_is_not_kept_for_ever() -> None:
    sieve = Sieve()
    assert len(sieve.take_out(b"\x1b_G" + b"x" * 100_000)) > 0
