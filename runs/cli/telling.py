"""From frames to lines for people. Text is told line by line, so that parallel texts do not run into each other."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runs.cli.plain_text import SafeStream, safe_line

type Frame = dict[str, Any]
type Data = dict[str, Any]

WORDS = {
    "queued": "Queued",
    "running": "Running",
    "waiting": "Waiting",
    "cancel_requested": "Stopping…",
    "cancelling": "Stopping…",
    "cancelled": "Stopped",
    "completed": "Completed",
    "failed": "Failed",
    "needs_reconciliation": "Being verified",
}
WORDS_OF_OUTCOME = {
    "not_started": "not started",
    "pending": "still in flight",
    "stopped": "stopped",
    "finished_first": "finished before the stop",
    "committed": "already done",
    "abandoned": "given up",
    "unknown": "sent, outcome not known yet",
}
WORDS_OF_GAP = {
    "trimmed": "Older detail was trimmed",
    "ahead": "The cursor was ahead of the run",
    "other_stream": "The cursor was of another run",
    "new_attempt": "A new attempt has begun",
    "slow": "This terminal fell behind",
}


@dataclass(slots=True)
class Text:
    """One text block: what was told of it, and the line that is not whole yet."""

    label: str
    told_characters: int = 0
    line: str = ""
    stream: SafeStream = field(default_factory=SafeStream)

    def feed(self, delta: str) -> list[str]:
        """Take a piece and give the lines that are whole now."""
        self.told_characters += len(delta)
        *lines, self.line = (self.line + self.stream.feed(delta)).split("\n")
        return lines

    def finish(self) -> list[str]:
        """Give the rest."""
        lines = (self.line + self.stream.finish()).split("\n")
        self.line = ""
        return lines if lines != [""] else []


@dataclass(slots=True)
class Teller:
    """Keeps what is needed to tell a run's frames: its open texts, the names of its steps, its state in a word."""

    run_id: str
    state: str = ""
    texts: dict[str, Text] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    steps: dict[str, str] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)  # steps whose call, or whose run, a stop has ended

    def tell(self, frame: Frame) -> list[str]:
        """Give the lines that a frame is worth; most frames are worth none."""
        rule = RULES.get(frame["type"])
        if rule is None:
            return []
        data = frame.get("data") if "seq" in frame else frame
        lines = rule(self, data if isinstance(data, dict) else {}, frame)
        stamp = _clock(frame.get("ts"))
        return [line.removeprefix(TEXT) if line.startswith(TEXT) else f"{stamp}{line}" for line in lines]

    def current_line(self) -> str:
        """Say the newest text line that is not whole yet."""
        return next((text.line for text in reversed(self.texts.values()) if text.line), "")

    def text_lines(self, text: Text, lines: list[str]) -> list[str]:
        """Mark lines as text; with several texts open each line says whose it is."""
        prefix = f"[{text.label}] " if text.label and len(self.texts) > 1 else ""
        return [f"{TEXT}{prefix}{line}" for line in lines]


COMMANDS = ("shell_run", "run_command")
TEXT = "\x00"  # cannot be in a line otherwise: it marks text, which gets no time in front
type Rule = Callable[[Teller, Data, Frame], list[str]]


def describe_effect(effect: Data) -> str:
    """Say what became of one step or operation of a run that was stopped."""
    name = next((str(effect[key]) for key in ("name", "tool", "operation", "step") if effect.get(key)), "a step")
    outcome = str(effect.get("outcome"))
    line = f"{safe_line(name, 80)}: {WORDS_OF_OUTCOME.get(outcome, outcome)}"
    return f"{line} ({safe_line(str(effect['proof']), 80)})" if effect.get("proof") else line


def _state(word: str) -> Rule:
    def rule(teller: Teller, data: Data, frame: Frame) -> list[str]:
        teller.state = word
        return [word]

    return rule


def _attempt_created(teller: Teller, data: Data, frame: Frame) -> list[str]:
    teller.state = WORDS["queued"]
    why = f": {safe_line(str(data['reason']), 200)}" if data.get("reason") else ""
    return [f"Attempt {frame.get('attempt')}, retry of {data.get('retry_of')}{why}"]


def _step_started(teller: Teller, data: Data, frame: Frame) -> list[str]:
    name = safe_line(f"{data.get('path')} {data.get('name') or data.get('kind')}", 100)
    teller.steps[str(frame.get("step_id"))] = name
    teller.state = f"Running · step {name}"
    again = f" (from attempt {data['reused_from']})" if data.get("reused_from") else ""
    return [f"step {name}{again}"] if data.get("kind") in ("tool", "timer") else []


def _step_finished(teller: Teller, data: Data, frame: Frame) -> list[str]:
    step_id = str(frame.get("step_id"))
    name = teller.steps.pop(step_id, str(data.get("path")))
    teller.state = "Running"
    if step_id in teller.stopped:
        teller.stopped.discard(step_id)
        return [f"step {name} stopped"]
    if data.get("state") == "finished":
        return []
    error = data.get("error")
    why = f": {safe_line(str(error.get('message', '')))}" if isinstance(error, dict) else ""
    return [f"step {name} {safe_line(str(data.get('state')), 20)}{why}"]


def _child_started(teller: Teller, data: Data, frame: Frame) -> list[str]:
    title = safe_line(str(data.get("title") or data.get("agent")), 80)
    return [f"began {safe_line(str(data.get('child_id')), 40)}  {title}"]


def _child_ended(teller: Teller, data: Data, frame: Frame) -> list[str]:
    status = str(data.get("status"))
    if status == "cancelled" and str(frame.get("step_id")) in teller.steps:
        teller.stopped.add(str(frame.get("step_id")))
    return [f"{safe_line(str(data.get('child_id')), 40)}: {WORDS.get(status, safe_line(status, 20))}"]


def _text_start(teller: Teller, data: Data, frame: Frame) -> list[str]:
    label = safe_line(str(data.get("label") or ""), 60)
    teller.texts[str(data.get("message_id"))] = Text(label)
    return [f"— {label} —"] if label else []


def _text_delta(teller: Teller, data: Data, frame: Frame) -> list[str]:
    text = teller.texts.get(str(data.get("message_id")))
    return [] if text is None else teller.text_lines(text, text.feed(str(data.get("delta") or "")))


def _text_end(teller: Teller, data: Data, frame: Frame) -> list[str]:
    message_id = str(data.get("message_id"))
    text = teller.texts.get(message_id)
    if text is None:
        return []
    lines = teller.text_lines(text, text.finish())
    teller.told[message_id] = teller.texts.pop(message_id).told_characters
    if data.get("final") is True:
        return lines
    why = "begun again after a worker was lost" if data.get("reason") == "superseded" else "interrupted"
    return [*lines, f"(text above: {why}; it is not a final answer)"]


def _tool_started(teller: Teller, data: Data, frame: Frame) -> list[str]:
    """Tell the command that a shell is given; calls of other tools are told by their steps."""
    given = data.get("arguments")
    command = given.get("command") if isinstance(given, dict) and data.get("tool") in COMMANDS else None
    return [f"$ {safe_line(command, 200)}"] if isinstance(command, str) else []


def _tool_result(teller: Teller, data: Data, frame: Frame) -> list[str]:
    if data.get("stopped") is True:
        teller.stopped.add(str(frame.get("step_id")))
    return []


def _tool_unknown(teller: Teller, data: Data, frame: Frame) -> list[str]:
    return [f"sent, but no answer came: {safe_line(str(data.get('operation_key')))}; it may have happened"]


def _asked(teller: Teller, data: Data, frame: Frame) -> list[str]:
    question_id = safe_line(str(data.get("question_id")), 40)
    return [
        f"asks: {safe_line(str(data.get('prompt')), 1000)}",
        f"answer with: outlive run answer {teller.run_id} {question_id} VALUE",
    ]


def _waiting(teller: Teller, data: Data, frame: Frame) -> list[str]:
    teller.state = f"Waiting for {safe_line(str(data.get('waiting_for')), 20)}"
    return []


def _artifact(teller: Teller, data: Data, frame: Frame) -> list[str]:
    return [f"made {safe_line(str(data.get('name')))} ({data.get('bytes')} bytes)"]


def _failed(teller: Teller, data: Data, frame: Frame) -> list[str]:
    teller.state = WORDS["failed"]
    return [f"Failed ({safe_line(str(data.get('code')), 60)}): {safe_line(str(data.get('message')), 500)}"]


def _cancelled(teller: Teller, data: Data, frame: Frame) -> list[str]:
    teller.state = WORDS["cancelled"]
    effects = [describe_effect(e) for e in data.get("effects") or [] if isinstance(e, dict)]
    return [f"Stopped ({safe_line(str(data.get('reason')), 20)})", *(f"  {line}" for line in effects)]


def _needs_reconciliation(teller: Teller, data: Data, frame: Frame) -> list[str]:
    teller.state = WORDS["needs_reconciliation"]
    return ["Being verified: no more work runs, and nothing is sent again until it is settled."]


def _gap(teller: Teller, data: Data, frame: Frame) -> list[str]:
    return [f"{WORDS_OF_GAP.get(str(data.get('reason')), 'There is a gap')}; rebuilt from the saved state."]


def _snapshot(teller: Teller, data: Data, frame: Frame) -> list[str]:
    view = data.get("view")
    if not isinstance(view, dict):
        return []
    lines: list[str] = []
    for message in view.get("messages") or []:
        lines += _catch_up(teller, message)
    status = view.get("status")
    if isinstance(status, str):
        teller.state = WORDS.get(status, status)
    return lines


def _catch_up(teller: Teller, message: Data) -> list[str]:
    """Tell what a snapshot has of a text beyond what was told before."""
    message_id, whole = str(message.get("message_id")), str(message.get("text") or "")
    if message.get("state") == "superseded" or message_id in teller.told:
        return []
    text = teller.texts.setdefault(message_id, Text(safe_line(str(message.get("label") or ""), 60)))
    lines = teller.text_lines(text, text.feed(whole[text.told_characters :]))
    if message.get("state") == "open":
        return lines
    return lines + _text_end(teller, {"message_id": message_id, "final": message.get("state") == "final"}, {})


def _clock(ts: Any) -> str:
    return f"{ts[11:19]}  " if isinstance(ts, str) and len(ts) >= 19 and ts[:19].isascii() else ""


RULES: dict[str, Rule] = {
    "attempt.created": _attempt_created,
    "run.started": _state("Running"),
    "run.resumed": _state("Running"),
    "run.waiting": _waiting,
    "run.cancel_requested": _state("Stopping…"),
    "run.completed": _state("Completed"),
    "run.failed": _failed,
    "run.cancelled": _cancelled,
    "run.needs_reconciliation": _needs_reconciliation,
    "claim.lost": _state("Worker lost; another one goes on"),
    "step.started": _step_started,
    "step.finished": _step_finished,
    "child.started": _child_started,
    "child.finished": _child_ended,
    "child.settled": _child_ended,
    "text.start": _text_start,
    "text.delta": _text_delta,
    "text.compacted": lambda teller, data, frame: _text_delta(teller, {**data, "delta": data.get("text")}, frame),
    "text.end": _text_end,
    "tool.started": _tool_started,
    "tool.result": _tool_result,
    "tool.unknown": _tool_unknown,
    "input.requested": _asked,
    "artifact.created": _artifact,
    "gap": _gap,
    "snapshot": _snapshot,
}
