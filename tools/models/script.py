"""Find and read the script of a scripted model: what it says, calls, waits for, and fails with.

    {"scripted": {"text": "..."}}                             streamed word by word
    {"scripted": {"key": "k1", "n": 100, "pad": 0}}           n bench tokens {"i", "t"}; progress in $BENCH_TOK/k1
    {"scripted": {..., "rate": 20}}                           deltas per second; 0 = full speed
    {"scripted": {..., "hold_at": 3}}                         before delta 3 it waits for $BENCH_TOK/<key>.release
    {"scripted": {..., "tool_calls": [{"name", "arguments"}]}}  after the text; a list of lists = one list per turn
    {"scripted": {..., "error": "rate_limited"}}              fails with that ModelError code after the deltas
    {"scripted": {"turns": [{...}, {...}]}}                   one script per turn of a tool loop
    {"scripted": {"key": "k1", "tool": "sleep"}}              one bench token; the agent starts the process itself

The script is looked for in the user messages, the newest first (JSON, possibly inside other text), then in
metadata["scripted"], then in the environment variable OUTLIVE_SCRIPT. The turn is the number of assistant messages
after the message that holds the script (from another place: of all assistant messages). Past the last turn the
model says "Done.". Without any script it says what it was told, so that a demo without a script is not silent.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tools.models.protocol import ErrorCode, ModelError, ModelRequest

_START = re.compile(r'\{\s*"scripted"\s*:')
DEFAULT_TOKENS = 100


class ScriptedCall(BaseModel):
    """One tool use of a script; without an id it gets call_<turn>_<index>."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    id: str | None = None


class Script(BaseModel):
    """One turn of a scripted model, with its defaults. Unknown words are refused, so a typo is no silent success."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    # A file name inside $BENCH_TOK, and it comes from a user's message: no separators, no leading dot.
    key: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,120}$")
    text: str | None = None
    n: int | None = Field(default=None, ge=0)
    rate: float = Field(default=0, ge=0)
    pad: int = Field(default=0, ge=0, le=1_000_000)
    hold_at: int | None = Field(default=None, ge=0)
    tool_calls: tuple[ScriptedCall, ...] = ()
    error: ErrorCode | None = None
    tool: Literal["", "sleep", "block"] = ""
    stop_reason: Literal["stop", "length"] = "stop"

    @property
    def token_count(self) -> int:
        """How many bench tokens this turn streams."""
        if self.tool:
            return 1
        if self.n is not None:
            return self.n
        says_else = self.text is not None or bool(self.tool_calls) or self.error is not None
        return 0 if says_else else DEFAULT_TOKENS


def read_script(request: ModelRequest, env: Mapping[str, str]) -> tuple[Script, int]:
    """Return the script of this turn and the turn's number (from 0). Raises ModelError(bad_request) on a bad script."""
    raw, turn = _find(request, env)
    if raw is None:
        told = next((m.content for m in reversed(request.messages) if m.role == "user"), "")
        return Script(text=f"You said: {told}"), turn
    try:
        return _of_turn(raw, turn), turn
    except ValidationError as error:
        raise ModelError("bad_request", f"The script of the scripted model is not valid: {error}") from error


def _of_turn(raw: dict[str, Any], turn: int) -> Script:
    shared = {name: value for name, value in raw.items() if name not in ("turns", "tool_calls")}
    if "turns" in raw:
        turns = raw["turns"]
        if not isinstance(turns, list) or not all(isinstance(item, dict) for item in turns):
            raise ModelError("bad_request", 'The script\'s "turns" must be a list of objects.')
        return Script.model_validate({**shared, **turns[turn]} if turn < len(turns) else {"text": "Done."})
    calls = raw.get("tool_calls")
    if not calls:
        return Script.model_validate(shared)
    by_turn = calls if isinstance(calls[0], list) else [calls]
    if turn < len(by_turn):
        return Script.model_validate({**shared, "tool_calls": by_turn[turn]})
    return Script.model_validate({"text": "Done.", **shared})


def _find(request: ModelRequest, env: Mapping[str, str]) -> tuple[dict[str, Any] | None, int]:
    answered = 0
    for message in reversed(request.messages):
        if message.role == "assistant":
            answered += 1
        elif message.role == "user" and (match := _START.search(message.content)):
            return _scripted(message.content[match.start() :]), answered
    if (raw := request.metadata.get("scripted")) is not None:
        return _scripted(json.dumps({"scripted": raw})), answered
    if text := env.get("OUTLIVE_SCRIPT"):
        return _scripted(text), answered
    return None, answered


def _scripted(text: str) -> dict[str, Any]:
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
        found = value["scripted"]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError("bad_request", "The script of the scripted model is not valid JSON.") from error
    if not isinstance(found, dict):
        raise ModelError("bad_request", 'The value of "scripted" must be an object.')
    return found
