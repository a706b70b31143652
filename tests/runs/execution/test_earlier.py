"""Which finished steps a new attempt takes over: all before the first that it does anew."""

from typing import Any

import pytest

from runs.execution.earlier import EarlierSteps, StoredStep, comes_after, place_of
from runs.ids import new_id
from runs.states import StepState


@pytest.mark.parametrize(
    ("path", "other", "is_after"),
    [
        ("2", "1", True),
        ("1", "2", False),
        ("10", "9", True),
        ("3.1.2", "3.1.1", True),
        ("3.2.1", "3.1.1", False),  # another branch
        ("3.1.1", "3.2.1", False),
        ("4", "3.2.7", True),
        ("3.2.7", "4", False),
        ("3.2.7", "2", True),
        ("3.1.2.1.1", "3.1.2.2.1", False),
        ("2", "2", False),
    ],
)
def test_what_comes_after_what(path: str, other: str, is_after: bool) -> None:
    assert comes_after(place_of(path), place_of(other)) is is_after


def steps(**states: str) -> dict[str, StoredStep]:
    """Make steps: s1="finished", s3_1_2="failed"."""
    made = {}
    for name, state in states.items():
        path = name[1:].replace("_", ".")
        made[path] = StoredStep(new_id(), path, "tool", "t", "d", StepState(state), path, {}, None, None)
    return made


def taken(earlier: EarlierSteps, *paths: str, digest: str = "d") -> list[str]:
    return [path for path in paths if earlier.find(path, "tool", "t", digest) is not None]


@pytest.mark.parametrize("state", ["failed", "abandoned", "superseded", "open"])
def test_nothing_is_taken_over_from_the_first_step_on_that_did_not_finish(state: str) -> None:
    earlier = EarlierSteps(steps(s1="finished", s2=state, s3="finished"))
    assert taken(earlier, "1", "2", "3") == ["1"]


def test_a_branch_beside_the_failed_one_is_taken_over() -> None:
    earlier = EarlierSteps(
        steps(s1="finished", s2_1_1="finished", s2_1_2="failed", s2_1_3="finished", s2_2_1="finished", s3="finished")
    )
    assert taken(earlier, "1", "2.1.1", "2.1.2", "2.1.3", "2.2.1", "3") == ["1", "2.1.1", "2.2.1"]


def test_nothing_is_taken_over_from_what_is_to_be_done_again_on() -> None:
    earlier = EarlierSteps(steps(s1="finished", s2="finished", s3="finished"), redone={"2"})
    assert taken(earlier, "1", "2", "3") == ["1"]


@pytest.mark.parametrize("changed", [{"digest": "e"}, {"name": "u"}, {"kind": "model"}])
def test_a_call_that_is_another_one_now_cuts_off_what_follows(changed: dict[str, Any]) -> None:
    earlier = EarlierSteps(steps(s1="finished", s2="finished", s3="finished"))
    call = {"path": "2", "kind": "tool", "name": "t", "digest": "d"} | changed
    assert taken(earlier, "1", "3") == ["1", "3"]
    assert earlier.find(**call) is None
    assert taken(earlier, "1", "2", "3") == ["1"]


def test_a_call_that_was_not_made_before_cuts_off_what_follows() -> None:
    earlier = EarlierSteps(steps(s1="finished", s3="finished"))
    assert taken(earlier, "2", "3", "1") == ["1"]
