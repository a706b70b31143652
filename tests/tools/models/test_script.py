"""Where a script is found and which part of it is played."""

import json

import pytest

from tools.models.protocol import Message, ModelError, ModelRequest
from tools.models.script import read_script


def test_script_is_found_inside_other_text_and_the_newest_wins() -> None:
    old = Message("user", json.dumps({"scripted": {"text": "old"}}))
    new = Message("user", 'Question:\n{ "scripted" : {"text": "new"}} thanks')
    script, turn = read_script(ModelRequest(messages=(old, Message("assistant", "old"), new)), {})
    assert (script.text, turn) == ("new", 0)


def test_user_message_without_a_script_does_not_hide_an_older_one() -> None:
    first = Message("user", json.dumps({"scripted": {"turns": [{"text": "1"}, {"text": "2"}]}}))
    more = (Message("assistant", "1"), Message("user", "and now?"))
    assert read_script(ModelRequest(messages=(first, *more)), {})[0].text == "2"


def test_metadata_and_then_the_environment_are_looked_at() -> None:
    plain = (Message("user", "Hello"),)
    env = {"OUTLIVE_SCRIPT": '{"scripted": {"text": "env"}}'}
    assert read_script(ModelRequest(messages=plain, metadata={"scripted": {"text": "meta"}}), env)[0].text == "meta"
    assert read_script(ModelRequest(messages=plain), env)[0].text == "env"
    assert read_script(ModelRequest(messages=plain), {})[0].text == "You said: Hello"


@pytest.mark.parametrize(
    "content",
    [
        '{"scripted": {"txt": "a"}}',
        '{"scripted": ',
        '{"scripted": 3}',
        '{"scripted": {"turns": 3}}',
        '{"scripted": {"n": -1}}',
        '{"scripted": {"error": "nope"}}',
        '{"scripted": {"tool_calls": [{"nam": 1}]}}',
    ],
)
def test_wrong_script_is_refused_and_not_ignored(content: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_script(ModelRequest(messages=(Message("user", content),)), {})
    assert caught.value.code == "bad_request"


def test_count_of_bench_tokens() -> None:
    def count(**script: object) -> int:
        return read_script(ModelRequest(messages=(), metadata={"scripted": script}), {})[0].token_count

    assert count(key="k") == 100
    assert count(key="k", tool="sleep", n=50) == 1
    assert count(error="auth") == count(tool_calls=[{"name": "a"}]) == 0
    assert count(error="auth", n=7) == 7
