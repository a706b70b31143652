"""Tests at once: which share a process, which are begun first."""

from tests import apart


def test_a_file_stays_together_and_a_folder_that_shares_an_installation() -> None:
    assert apart.together("tests/runs/test_clock.py::test_a[x::y]") == "tests/runs/test_clock.py"
    shared = {apart.together(f"tests/chaos/{name}::test_a") for name in ("test_chaos.py", "shells/test_proofs.py")}
    assert len(shared) == 1
    assert apart.together("tests/acceptance/test_stop.py::test_a") not in shared


def test_the_long_ones_are_begun_first_and_the_others_stay_in_order() -> None:
    names = [f"tests/{name}.py::test_a" for name in ("config/test_a", "chaos/test_a", "browser/test_shells", "a")]
    assert sorted(names, key=apart.rank) == [names[1], names[2], names[0], names[3]]
