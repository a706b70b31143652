"""Only allowed names reach a command."""

from pathlib import Path

from tools.processes.environment import build_environment


def test_unlisted_names_stay_out_and_home_is_the_given_folder() -> None:
    source = {"PATH": "/bin", "HOME": "/root", "AWS_SECRET": "x", "TZ": "UTC", "EXTRA": "1"}
    assert build_environment({"COMMAND_ENV_ALLOW": "EXTRA,, ABSENT"}, home=Path("/w"), source=source) == {
        "PATH": "/bin",
        "TZ": "UTC",
        "EXTRA": "1",
        "LANG": "C.UTF-8",
        "HOME": "/w",
    }


def test_empty_source_still_finds_programs() -> None:
    assert build_environment({}, home=Path("/w"), source={})["PATH"]
