"""What a declaration says, what arguments pass, and what each error of a tool means for the outcome."""

import asyncio
import json
import os
import signal
import time
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from tests.tools.builders import a_call, a_host, a_marker, a_permit, living, wait_until
from tools import (
    Effect,
    LookUp,
    LookUpCall,
    Outcome,
    OutcomeUnknown,
    Receipt,
    ToolArgumentsInvalid,
    ToolCall,
    ToolError,
    registry,
    tool,
)
from tools.registry import UnknownTool, all_tools, describe_for_model, get_tool
from tools.scope import CancelReason, Scope, ScopeCancelled


class Colour(StrEnum):
    RED = "red"


@tool(effect="read")
async def sample_read(
    count: int, ratio: float = 0.5, colour: Colour = Colour.RED, day: date | None = None, copy: str = "x"
) -> dict[str, Any]:
    """Return what it got."""
    return {"count": count, "ratio": ratio, "colour": repr(colour), "day": repr(day), "copy": copy}


@tool(effect="write", look_up=None, redact=["secret"])
async def sample_write(call: ToolCall, before: str = "", after: str = "", secret: str = "") -> Receipt:
    """Raise before or after the first byte."""
    await _raise(before)
    call.open()
    await _raise(after)
    return Receipt(Outcome.SUCCEEDED, value="a\0b\ud800", proof="http 201", external_id="7")


@tool(effect="write", look_up=None)
async def sample_plain_write(after: str) -> None:
    """A write that does not know of permits."""
    await _raise(after)


@tool(effect="read", timeout_seconds=0.05)
async def sample_slow_read() -> None:
    """Never return."""
    await asyncio.Event().wait()


@tool(effect="read")
def sample_blocking(text: str, day: date, fail: str = "") -> dict[str, Any]:
    """Run in a child process and print on the way."""
    print("this goes to stderr")
    if fail == "refuse":
        raise ToolError("no", code="said_no", retryable=True)
    if fail == "raise":
        raise LookupError("lost")
    if fail == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"text": text, "day": day.isoformat(), "pid": os.getpid()}


@tool(effect="write", look_up=None, timeout_seconds=60)
def sample_blocking_write(marker: str, folder: str) -> None:
    """Start something, say so and sleep without an end."""
    os.spawnlp(os.P_NOWAIT, "sleep", "sleep", marker)
    Path(folder, "up").touch()
    time.sleep(600)


async def _raise(what: str) -> None:
    if what:
        raise {"refuse": ToolError("no", "no"), "unknown": OutcomeUnknown("?"), "time": TimeoutError()}.get(
            what, RuntimeError(what)
        )


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({}, "count"),
        ({"count": True}, "count"),
        ({"count": "3"}, "count"),
        ({"count": 3.5}, "count"),
        ({"count": 3, "ratio": float("nan")}, "ratio"),
        ({"count": 3, "ratio": float("inf")}, "ratio"),
        ({"count": 3, "copy": "a\0"}, "copy"),
        ({"count": 3, "copy": "\ud800"}, "copy"),
        ({"count": 3, "colour": "blue"}, "colour"),
        ({"count": 3, "day": "tomorrow"}, "day"),
        ({"count": 3, "other": 1}, "other"),
        ({"count": 3, "copy": b"bytes"}, "copy"),
    ],
)
def test_wrong_arguments_are_refused_by_field(arguments: dict[str, Any], path: str) -> None:
    with pytest.raises(ToolArgumentsInvalid) as caught:
        sample_read.validate(arguments)
    assert [problem.path for problem in caught.value.problems] == [path]


def test_deeply_nested_arguments_are_refused_and_not_followed() -> None:
    nested: Any = 1
    for _ in range(5000):
        nested = [nested]
    with pytest.raises(ToolArgumentsInvalid, match="nested deeper"):
        sample_read.validate({"count": nested})


def test_validated_arguments_are_canonical_json() -> None:
    once = sample_read.validate({"count": 3, "day": "2026-11-29"})
    assert once == {"count": 3, "ratio": 0.5, "colour": "red", "day": "2026-11-29", "copy": "x"}
    assert sample_read.validate(once) == once
    assert json.loads(json.dumps(once)) == once


def test_model_sees_names_types_and_no_call_parameter() -> None:
    seen = describe_for_model(sample_write)
    assert seen["name"] == "sample_write"
    assert seen["description"] == "Raise before or after the first byte."
    assert set(seen["parameters"]["properties"]) == {"before", "after", "secret"}
    assert "title" not in json.dumps(seen)
    assert describe_for_model(sample_read)["parameters"]["required"] == ["count"]


def test_redacted_arguments_hide_what_was_declared() -> None:
    assert sample_write.redacted({"before": "a", "secret": "s"}) == {"before": "a", "secret": "[redacted]"}


def test_registry_knows_by_name_and_says_what_it_knows() -> None:
    assert get_tool("sample_read") is sample_read
    assert sample_read in all_tools()
    with pytest.raises(UnknownTool, match="sample_read"):
        get_tool("no_such_tool")


def test_contradicting_declarations_fail_at_import() -> None:
    async def writes(text: str) -> None:
        """Write."""

    async def greedy(*texts: str) -> None:
        """Take all."""

    async def vague(text) -> None:  # type: ignore[no-untyped-def]
        """Take anything."""

    async def silent(text: str) -> None: ...

    async def look(call: LookUpCall) -> LookUp:
        return LookUp(None)

    def local(text: str) -> None:
        """Block."""

    with pytest.raises(TypeError, match="look_up=None aloud"):
        tool(effect="write")(writes)
    with pytest.raises(TypeError, match="only reads"):
        tool(effect="read", look_up=look)(writes)
    with pytest.raises(TypeError, match="passable by name"):
        tool(effect="read")(greedy)
    with pytest.raises(TypeError, match="needs an annotation"):
        tool(effect="read")(vague)
    with pytest.raises(TypeError, match="docstring"):
        tool(effect="read")(silent)
    with pytest.raises(TypeError, match="importable"):
        tool(effect="read")(local)
    with pytest.raises(ValueError, match="lower case"):
        tool(effect="read", name="Not a name")(writes)
    with pytest.raises(ValueError, match="is taken"):
        tool(effect="read", name="sample_read")(writes)
    with pytest.raises(ValueError, match="redact"):
        tool(effect="read", redact=["absent"])(writes)


async def test_plain_result_becomes_a_succeeded_receipt_and_text_is_made_storable() -> None:
    receipt = await sample_read.call(a_call(), {"count": 3, "day": "2026-11-29"})
    assert receipt.outcome is Outcome.SUCCEEDED
    assert isinstance(receipt.value, dict)
    assert receipt.value["day"] == "datetime.date(2026, 11, 29)"
    receipt = await sample_write.call(a_call(), {})
    assert (receipt.value, receipt.external_id) == ("a\ufffdb\ufffd", "7")


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ({"before": "crash"}, Outcome.FAILED),
        ({"before": "time"}, Outcome.FAILED),
        ({"before": "refuse"}, Outcome.FAILED),
        ({"after": "crash"}, Outcome.UNKNOWN),
        ({"after": "time"}, Outcome.UNKNOWN),
        ({"after": "unknown"}, Outcome.UNKNOWN),
        ({"after": "refuse"}, Outcome.FAILED),
        ({"before": 3}, Outcome.FAILED),
    ],
)
async def test_outcome_follows_from_the_error_and_the_permit(arguments: dict[str, Any], outcome: Outcome) -> None:
    receipt = await sample_write.call(a_call(), arguments)
    assert receipt.outcome is outcome
    assert receipt.error


async def test_write_that_knows_no_permits_has_its_permit_used_for_it() -> None:
    receipt = await sample_plain_write.call(a_call(), {"after": "crash"})
    assert receipt.outcome is Outcome.UNKNOWN
    receipt = await sample_plain_write.call(a_call(permit=a_permit(seconds=0)), {"after": "crash"})
    assert (receipt.outcome, receipt.code) == (Outcome.FAILED, "permit_expired")


async def test_permit_that_was_used_before_leaves_the_outcome_open() -> None:
    permit = a_permit()
    permit.open()
    receipt = await sample_write.call(a_call(permit=permit), {})
    assert (receipt.outcome, receipt.code) == (Outcome.UNKNOWN, "permit_used")


async def test_read_ends_at_its_own_time_and_drops_at_a_cancel() -> None:
    receipt = await sample_slow_read.call(a_call(), {})
    assert (receipt.outcome, receipt.code) == (Outcome.FAILED, "timeout")
    scope = Scope()
    scope.cancel(CancelReason.USER)
    with pytest.raises(ScopeCancelled):
        await sample_slow_read.call(a_call(scope=scope), {})


async def test_blocking_tool_runs_in_another_process_and_its_errors_keep_their_meaning(tmp_path: Path) -> None:
    assert sample_blocking.blocking
    async with a_host() as host:

        async def ask(fail: str) -> Receipt:
            arguments = {"text": "\u00e9\n", "day": "2026-11-29", "fail": fail}
            return await sample_blocking.call(a_call(workspace=tmp_path, processes=host), arguments)

        good = await ask("")
        assert isinstance(good.value, dict)
        assert good.value["text"] == "\u00e9\n"
        assert good.value["pid"] != os.getpid()
        refused = await ask("refuse")
        assert (refused.outcome, refused.code, refused.retryable) == (Outcome.FAILED, "said_no", True)
        assert "lost" in str((await ask("raise")).error)
        assert (await ask("die")).outcome is Outcome.FAILED


async def test_cancelled_blocking_write_dies_with_all_it_started(tmp_path: Path) -> None:
    """A cancelled scope lets a write go on; the executor cancels the coroutine when it will not wait longer."""
    marker = a_marker()
    async with a_host() as host:
        scope = Scope()
        call = a_call(workspace=tmp_path, processes=host, scope=scope)
        running = asyncio.ensure_future(sample_blocking_write.call(call, {"marker": marker, "folder": str(tmp_path)}))
        await wait_until(lambda: living(marker))
        scope.cancel(CancelReason.USER)
        assert not (await asyncio.wait({running}, timeout=0.2))[0]
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert living(marker) == []
        assert call.permit.is_used


def test_effects_are_the_three_words() -> None:
    assert [effect.value for effect in Effect] == ["read", "idempotent", "write"]


@pytest.fixture
def forgotten_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else knows what a test declares."""
    monkeypatch.setattr(registry, "_tools", dict(registry._tools))


@pytest.mark.usefixtures("forgotten_tools")
def test_a_write_that_cannot_use_its_permit_fails_at_import() -> None:
    """Cut in mid-effect it would be called "nothing was sent", and sent again by the next attempt."""

    async def forgets(call: ToolCall, text: str) -> str:
        """Write, and never say so."""
        return f"{call.operation_key} {call.remaining()} {text}"

    async def opens(call: ToolCall, text: str) -> None:
        """Write."""
        call.open()

    async def hands_on(call: ToolCall, text: str) -> None:
        """Write."""
        await opens(call, text)

    async def takes_none(text: str) -> None:
        """Write."""

    for effect in ("write", "idempotent"):
        with pytest.raises(TypeError, match=r"forgets has an effect .* never calls call\.open\(\)"):
            tool(effect=effect, look_up=None)(forgets)
    assert tool(effect="read", name="forgets_to_read")(forgets).effect is Effect.READ  # a read leaves nothing behind
    for fn in (opens, hands_on, takes_none):
        assert tool(effect="write", look_up=None, name=f"may_{fn.__name__}")(fn).effect is Effect.WRITE


@pytest.mark.usefixtures("forgotten_tools")
def test_a_tool_without_source_is_believed() -> None:
    space: dict[str, Any] = {"ToolCall": ToolCall}
    exec("async def typed(call: ToolCall) -> None:\n    'Write.'", space)
    assert tool(effect="write", look_up=None, name="typed_write")(space["typed"]).effect is Effect.WRITE
