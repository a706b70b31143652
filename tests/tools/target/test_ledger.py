"""The target's memory on disk."""

from pathlib import Path

import pytest

from tools.target.ledger import Effect, Ledger, Refused


def an_effect(key: str) -> Effect:
    return Effect(key=key, kind="mail.sent", id="mail_1", at=1.0, fence=2, digest="d", data={"to": ["a"]})


def test_reopened_ledger_knows_effects_fences_and_seals(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state")
    ledger.admit("k1", 7)
    ledger.add(an_effect("k1"))
    ledger.seal("k2", at=1.0)
    before = ledger.describe("k1")
    ledger.close()
    again = Ledger(tmp_path / "state")
    assert again.describe("k1") == before
    with pytest.raises(Refused, match="older"):
        again.admit("k1", 6)
    with pytest.raises(Refused, match="sealed"):
        again.admit("k2", None)
    again.close()


def test_last_line_that_a_crash_cut_is_dropped_and_the_file_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "state"
    ledger = Ledger(path)
    ledger.add(an_effect("k1"))
    ledger.close()
    with path.open("ab") as file:
        file.write(b'{"type":"effect","key":"k2"')
    again = Ledger(path)
    again.add(an_effect("k3"))
    again.close()
    third = Ledger(path)
    assert [third.describe(key)["count"] for key in ("k1", "k2", "k3")] == [1, 0, 1]
    third.close()


def test_damage_in_the_middle_is_an_error_and_not_a_loss(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b'{"type":\n{"type":"seal","key":"k","at":1}\n')
    with pytest.raises(ValueError, match="Line 1"):
        Ledger(path)
