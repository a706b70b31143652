"""The view of a run as the run page shows it: each step with its words, chips, texts, facts and questions.

`runs/static/runs/present.js` is the same for what arrives later; tests/browser/test_run_page.py holds the two against
each other on real pages.
"""

import json
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from runs.pages import words

type Json = Any
type View = dict[str, Any]

MAIN_TEXTS = ("answer", "text", "summary", "message")  # of a result, the first that is there
HINT_CHARS = 160
COMMANDS = ("shell_run", "run_command")  # tools whose calls are told apart by what they run
COMMAND_CHARS = 80
BLANKS = " \t\r\n"


def show_steps(view: View) -> list[dict[str, Any]]:
    """Give every step of the attempt in the order of its start."""
    messages = {m["message_id"]: m for m in view["messages"]}
    operations = {o["operation_id"]: o for o in view["operations"]}
    questions: dict[str | None, list[dict[str, Any]]] = {}
    for question in view["questions"]:
        questions.setdefault(question["step_id"], []).append(show_question(question))
    return [
        show_step(step, messages=messages, operations=operations, questions=questions.get(step["step_id"], []))
        for step in view["steps"]
    ]


def show_step(
    step: dict[str, Any],
    *,
    messages: dict[str, dict[str, Any]],
    operations: dict[str, dict[str, Any]],
    questions: list[dict[str, Any]],
) -> dict[str, Any]:
    """Give one step: what its line in the timeline and its card say."""
    tool = step["tool"] or {}
    operation = operations.get(tool.get("operation_id") or "")
    state = step["state"] if step["state"] in words.STEP else "open"
    shown = [messages[i] for i in step["message_ids"] if messages[i]["state"] != "superseded"]
    path = as_text(step["path"])
    child = step["child"] or {}
    facts = _facts(step, tool)
    return {
        "id": step["step_id"],
        "path": path,
        "depth": path.count("."),
        "kind": step["kind"],
        "kind_word": words.KIND.get(step["kind"], words.KIND["text"]),
        "name": next((m["label"] for m in shown if m["label"]), None) or command_line(tool) or as_text(step["name"]),
        "state": state,
        "state_word": words.STEP[_state_word(state, operation)],
        "effect": words.EFFECT.get(step["effect"]) if step["kind"] == "tool" else None,
        "outcome": words.UNDO.get(as_text(operation.get("undo"))) or words.OPERATION.get(operation["state"])
        if operation
        else words.STATUS.get(as_text(child.get("status"))),
        "child_id": child.get("child_id") or "",
        "shell_id": child.get("shell_id") or "",
        "taken": _taken(child),
        "child_title": as_text(child.get("title")),
        "reused": _("from attempt %(n)s") % {"n": step["reused_from"]} if step["reused_from"] else "",
        "took": duration(step["started_at"], step["finished_at"]),
        "started_at": step["started_at"] if state == "open" else None,
        "messages": shown,
        "facts": facts,
        "has_facts": any(fact["text"] for fact in facts),
        "hint": one_line(tool.get("arguments") or None) or facts[5]["text"],
        "is_opened": step["kind"] == "tool" and step["effect"] != "read",
        # What a stop dropped or ended is no error, and the card says so already.
        "error": "" if _needs_no_error(state, tool) else error_text(step["error"]) or error_text(tool.get("error")),
        "error_tone": "grey" if state == "stopped" else "red",
        # An open question has its form below, with the same words.
        "questions": [q for q in questions if q["state"] != "open"],
    }


def _needs_no_error(state: str, tool: dict[str, Any]) -> bool:
    return state == "abandoned" or (state == "stopped" and bool(tool))


def _state_word(state: str, operation: dict[str, Any] | None) -> str:
    if state == "abandoned" and operation:
        return "stopped" if operation["state"] == "stopped" else "unanswered"
    return state


def command_line(tool: dict[str, Any]) -> str:
    """Write the command that a tool runs as the title of its step: its first line, shortened; empty for other tools."""
    given = tool.get("arguments")
    command = given.get("command") if isinstance(given, dict) and tool.get("tool") in COMMANDS else None
    whole = command.strip(BLANKS) if isinstance(command, str) else ""
    if not whole:
        return ""
    line = whole.split("\n")[0].rstrip(BLANKS)
    is_whole = line == whole and len(line) <= COMMAND_CHARS
    return f"$ {line[:COMMAND_CHARS]}" + ("" if is_whole else "…")


def _taken(child: dict[str, Any]) -> str:
    """Say who has taken over the shell that an agent has opened."""
    name = as_text(child.get("held_by"))
    if not name:
        return ""
    return _("%(name)s has taken over the shell. The agent waits until it is handed back.") % {"name": name}


def _facts(step: dict[str, Any], tool: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the lines of a card: (name, text, whether it is set as code). Empty ones are left out."""
    model = step["model"] or {}
    side = {"stopped": _("stopped computing"), "unknown": _("not known")}.get(as_text(model.get("provider_side")), "")
    names = filter(None, [as_text(model.get("provider")), as_text(model.get("model"))])
    lines = [
        ("arguments", _("Arguments"), pretty(tool.get("arguments") or None), True),
        ("progress", _("Progress"), pretty(tool.get("progress")) if step["state"] == "open" else "", True),
        ("result", _("Result"), pretty(tool.get("value")), True),
        ("proof", _("Proof"), proof_text(tool.get("proof")), False),
        ("key", _("Operation key"), as_text(tool.get("operation_key")), True),
        ("model", _("Model"), " · ".join(names), False),
        ("request", _("Provider's request id"), as_text(model.get("request_id")), True),
        ("side", _("Provider's side"), side, False),
    ]  # fmt: skip
    return [{"name": n, "label": label, "text": text, "code": code} for n, label, text, code in lines]


def show_question(question: dict[str, Any]) -> dict[str, Any]:
    """Give a question with the word for its state and, when it was answered, the answer as text."""
    state = question["state"] if question["state"] in words.QUESTION else "shut"
    return {
        "id": question["question_id"],
        "prompt": as_text(question["prompt"]),
        "schema": question["schema"],
        "state": state,
        "word": words.QUESTION[state],
        "answer": pretty(question["value"]) if state == "answered" else "",
        "expires_at": question["expires_at"] if state == "open" else None,
    }


def show_effects(effects: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Give the lines of a stop's receipt. What finished before the stop as a read or a model call is no news."""
    lines = []
    for effect in effects or []:
        if not isinstance(effect, dict):
            continue
        outcome = effect.get("outcome")
        word = words.RECEIPT.get(outcome if isinstance(outcome, str) else "", words.RECEIPT["unknown"])
        proof = [as_text(effect.get("external_id")), proof_text(effect.get("proof"))]
        lines.append({"name": as_text(effect.get("name")), "word": word, "proof": " · ".join(filter(None, proof))})
    return lines


def proof_text(proof: Json) -> str:
    """Say by what an outcome is known: our own words in the reader's language, a target's as it said them."""
    said = as_text(proof)
    return str(words.PROOF.get(said, said))


def show_result(view: View) -> tuple[str, str]:
    """Give the result: the text that people want to read, and what else there is, as JSON.

    The text is empty when the page shows the same already as the last answer.
    """
    result = view["result"]
    if result is None:
        return "", ""
    text, rest = "", result
    if isinstance(result, str):
        text, rest = result, None
    elif isinstance(result, dict):
        name = next((n for n in MAIN_TEXTS if isinstance(result.get(n), str)), None)
        if name is not None:
            text, rest = result[name], {k: v for k, v in result.items() if k != name}
    final = [m["text"] for m in view["messages"] if m["state"] == "final"]
    is_shown = bool(final) and final[-1].strip() == text.strip()
    # Where the text is on the page already, a card with the rest alone would be noise; "Raw JSON" has it.
    return ("", "") if is_shown and text else (text, pretty(rest or None))


def attempt_text(view: View) -> str:
    """Say of which attempt this one is a retry, by whom and why; empty for the first."""
    retry = view["retry"]
    if not retry:
        return ""
    told = {"n": as_text(view["attempt"]), "of": as_text(retry["retry_of"]), "by": as_text(retry["by"])}
    if not retry["reason"]:
        return _("Attempt %(n)s, retry of %(of)s by %(by)s") % told
    return _("Attempt %(n)s, retry of %(of)s by %(by)s: “%(why)s”") % (told | {"why": as_text(retry["reason"])})


def verifying_text(view: View) -> str:
    """Say what is not known of a run whose outcome is being verified."""
    names = [as_text(o["tool"]) for o in view["operations"] if o["state"] == "unknown"]
    children = [s["child"] for s in view["steps"] if s["child"] and s["child"]["status"] == "needs_reconciliation"]
    if not names and children:
        titles = ", ".join(f"“{as_text(child['title'])}”" for child in children)
        return _(
            "What a run that it began has done is being verified: %(list)s. "
            "Nothing will be retried until it is settled."
        ) % {"list": titles}
    if not names:
        return _("Nothing will be retried until it is settled.")
    return _(
        "We sent %(list)s and got no answer; it may have happened. Nothing will be retried until it is settled."
    ) % {"list": ", ".join(f"“{name}”" for name in names)}


def usage_text(usage: dict[str, int]) -> str:
    """Write how many tokens went in and came out; empty before the first."""
    if not usage["input_tokens"] and not usage["output_tokens"]:
        return ""
    return _("%(in)s tokens in, %(out)s out") % {"in": usage["input_tokens"], "out": usage["output_tokens"]}


def show_blank() -> dict[str, Any]:
    """Give the step that the page's <template> elements are made of: every slot is there, and empty."""
    step: dict[str, Any] = {
        "step_id": "",
        "path": "",
        "kind": "text",
        "name": "",
        "effect": None,
        "state": "open",
        "error": None,
    }
    step |= {"started_at": None, "finished_at": None, "tool": None, "model": None, "child": None}
    step["message_ids"] = []
    step["reused_from"] = None
    return show_step(step, messages={}, operations={}, questions=[])


def duration(start: str | None, end: str | None) -> str:
    """Write how long something took: 0.4 s, 12.3 s, 3 min 04 s, 2 h 05 min. Empty when it is not over."""
    if not start or not end:
        return ""
    try:
        seconds = max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
    except ValueError:
        return ""
    return write_seconds(seconds)


def write_seconds(seconds: float) -> str:
    """Write a length of time for people, as short as it stays exact enough."""
    if seconds < 60:
        return _("%(n)s s") % {"n": f"{int(seconds * 10) / 10:.1f}" if seconds < 10 else f"{int(seconds)}"}
    whole = int(seconds)
    if whole < 3600:
        return _("%(m)s min %(s)s s") % {"m": whole // 60, "s": f"{whole % 60:02d}"}
    return _("%(h)s h %(m)s min") % {"h": whole // 3600, "m": f"{whole % 3600 // 60:02d}"}


def as_text(value: Json) -> str:
    """Write a value in one line: a text as it is, nothing as nothing, else compact JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def pretty(value: Json) -> str:
    """Write a value for reading: a text as it is, else indented JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, indent=2)


def one_line(value: Json) -> str:
    """Write the arguments of a call in one short line: name: value, …"""
    if not isinstance(value, dict):
        return as_text(value)[:HINT_CHARS]
    return ", ".join(f"{key}: {as_text(item)}" for key, item in value.items() if item not in (None, ""))[:HINT_CHARS]


def error_text(error: Json) -> str:
    """Write an error of a step or a tool: its message, with the code in front when there is one."""
    if isinstance(error, dict):
        code, message = as_text(error.get("code")), as_text(error.get("message"))
        return f"{code}: {message}" if code and message else code or message or as_text(error)
    return as_text(error)
