"""What `make up` starts, and what it keeps for a person who comes back."""

import json
from pathlib import Path

import pytest

from config.stack.programs import Addresses, child_specs, keep_demo, program_environ
from config.stack.state import StateFolder

ADDRESSES = Addresses(web=8000, model=1, target=2, mail=3)


def test_the_demo_target_wins_over_a_real_mail_server(tmp_path: Path) -> None:
    environ = program_environ({"SMTP_HOST": "mail.example", "OPENAI_API_KEY": "k"}, StateFolder(tmp_path), ADDRESSES)
    assert environ["SMTP_HOST"] == "127.0.0.1"
    assert environ["OPENAI_API_KEY"] == "k"
    assert environ["OUTLIVE_BASE_URL"] == "http://127.0.0.1:8000"


def test_the_web_is_started_last_and_so_stopped_first(tmp_path: Path) -> None:
    specs = child_specs({}, StateFolder(tmp_path), ADDRESSES)
    assert [spec.name for spec in specs] == ["target", "model", "supervisor", "terminals", "screens", "workers", "web"]
    assert sum(spec.stop_within_seconds for spec in specs) <= 26
    for spec in specs:
        assert spec.marker in " ".join(spec.argv)


def test_the_host_of_terminals_gets_no_secret(tmp_path: Path) -> None:
    """What runs in a shell may read the environment of its parents."""
    specs = child_specs({"OUTLIVE_SECRET_KEY": "s", "ZZ_CANARY": "s", "PATH": "/bin"}, StateFolder(tmp_path), ADDRESSES)
    for name in ("terminals", "screens"):
        assert next(spec.environ for spec in specs if spec.name == name) == {"PATH": "/bin"}


def test_a_password_is_told_once_and_kept(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    keep_demo(state, 'noise\n{"user": "demo", "password": "p", "token": "t"}\n', ADDRESSES)
    later = keep_demo(
        state, '{"user": "demo", "password": null, "token": null}', Addresses(web=5, model=1, target=2, mail=3)
    )
    url, target_url = "http://127.0.0.1:5", "http://127.0.0.1:2"
    assert later == {"user": "demo", "url": url, "target_url": target_url, "password": "p", "token": "t"}
    assert json.loads(state.client.read_text()) == {"base_url": url, "token": "t"}
    for path in (state.demo, state.client):
        assert path.stat().st_mode & 0o777 == 0o600


def test_the_password_of_another_user_is_not_told(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    keep_demo(state, '{"user": "demo", "password": "p", "token": "t"}', ADDRESSES)
    assert keep_demo(state, '{"user": "other", "password": null, "token": null}', ADDRESSES)["password"] is None


@pytest.mark.parametrize("answer", ["", "no JSON", "[]"])
def test_an_answer_that_does_not_fit_is_an_error(tmp_path: Path, answer: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        keep_demo(StateFolder(tmp_path), answer, ADDRESSES)
