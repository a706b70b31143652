"""Which server and which token: order of the sources, and no token to the wrong address."""

import json
from pathlib import Path
from typing import Any

import pytest

from runs.cli.problems import Usage
from runs.cli.settings import Target, read_target

STORED = {"base_url": "http://127.0.0.1:8123", "token": "outlive_stored"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    write(tmp_path, STORED)
    return tmp_path


def write(checkout: Path, content: Any, mode: int = 0o600) -> None:
    (checkout / ".state").mkdir(exist_ok=True)
    file = checkout / ".state" / "client.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    file.chmod(mode)


def target(checkout: Path, *, url: str | None = None, token: str | None = None, **environ: str) -> Target:
    return read_target(base_url=url, token=token, environ=environ, checkout=checkout)


def test_without_anything_else_the_stack_of_this_checkout_is_used(checkout: Path) -> None:
    assert target(checkout) == Target("http://127.0.0.1:8123", "outlive_stored")


def test_the_environment_goes_before_the_file_and_the_command_line_before_both(checkout: Path) -> None:
    environ = {"OUTLIVE_BASE_URL": "http://env.invalid/", "OUTLIVE_TOKEN": "outlive_env"}
    assert target(checkout, **environ) == Target("http://env.invalid", "outlive_env")
    assert target(checkout, url="http://cli.invalid", token="outlive_cli", **environ) == Target(
        "http://cli.invalid", "outlive_cli"
    )


def test_a_token_alone_goes_to_the_stack_of_this_checkout(checkout: Path, tmp_path: Path) -> None:
    assert target(checkout, token="outlive_cli") == Target("http://127.0.0.1:8123", "outlive_cli")
    assert target(tmp_path / "none", token="outlive_cli").base_url == "http://127.0.0.1:8000"


def test_the_stored_token_is_never_sent_to_another_address(checkout: Path) -> None:
    assert target(checkout, url="http://127.0.0.1:8123/").token == "outlive_stored"
    with pytest.raises(Usage, match=r"no token for http://evil\.invalid"):
        target(checkout, url="http://evil.invalid")
    with pytest.raises(Usage):
        target(checkout, OUTLIVE_BASE_URL="http://evil.invalid")


def test_without_a_token_the_next_move_is_named(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="make up"):
        target(tmp_path)


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o606])
def test_a_file_that_others_can_touch_is_not_used(tmp_path: Path, mode: int) -> None:
    write(tmp_path, STORED, mode)
    with pytest.raises(Usage, match="chmod 600"):
        target(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"base_url": "x"}', '{"base_url": 1, "token": 2}', "null"])
def test_a_broken_file_is_a_clear_error(tmp_path: Path, content: str) -> None:
    write(tmp_path, content)
    with pytest.raises(Usage):
        target(tmp_path)


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "http://a b", "http://x\n", ""])
def test_a_wrong_address_is_a_clear_error(tmp_path: Path, url: str) -> None:
    with pytest.raises(Usage):
        target(tmp_path, url=url or "x", token="outlive_x")


@pytest.mark.parametrize("token", ["a b", "ä", "a\nb"])
def test_a_token_that_no_header_can_carry_is_a_clear_error(tmp_path: Path, token: str) -> None:
    with pytest.raises(Usage, match="token"):
        target(tmp_path, token=token)
