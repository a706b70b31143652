"""What the small local model is shown and how its output is confined; pure functions.

Measured with SmolLM2-135M on 16 requests over six tools: chat with a JSON schema chose the right tool in 2 of 12
cases (it repeats the last example), plain completion with examples made from the tools' own names and descriptions
in 12 of 16, and its errors lean to "answer", which does nothing. A grammar confines the output to the names.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tools.models.protocol import Message, ToolUse

ANSWER = "answer"  # the name of "no tool" in the prompt; a tool of that name is told apart by its place
STRING_LIMIT = 200  # characters; a model this small fills an unbounded string until its tokens end
ITEM_LIMIT = 8
REQUEST_LIMIT = 600  # characters of the user's request and of each result that the decision is based on
_SMALL_TALK = ("Hello!", "What is the tallest mountain?", "Explain how rain forms.", "Why is the sky blue?")
_EXAMPLES_PER_SMALL_TALK = 3


def last_request(messages: Sequence[Message]) -> str:
    """Return the newest user message, shortened to what a decision needs."""
    text = next((m.content for m in reversed(messages) if m.role == "user"), "")
    return shorten(" ".join(text.split()), REQUEST_LIMIT)


def shorten(text: str, limit: int) -> str:
    """Return `text` with its middle replaced by a mark when it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    mark = " [...] "
    head = max((limit - len(mark)) * 2 // 3, 0)
    tail = max(limit - len(mark) - head, 0)
    return text[:head] + mark + (text[-tail:] if tail else "")


def choice_prompt(tools: Sequence[Mapping[str, Any]], messages: Sequence[Message]) -> str:
    """Return the text after which the model writes the name of a tool, or "answer"."""
    sentences = [(shorten(_first_sentence(t), 120), t["name"]) for t in tools]
    spoken = [(f"Please {t['name'].replace('_', ' ').replace('.', ' ')}", t["name"]) for t in tools]
    small_talk = list(_SMALL_TALK)
    lines = ['Pick the tool for each request. Use "answer" when no tool is needed.', ""]
    for examples in (sentences, spoken):
        for index, (request, name) in enumerate(examples):
            lines += [f"Request: {request}", f"Tool: {name}"]
            at_pause = index % _EXAMPLES_PER_SMALL_TALK == _EXAMPLES_PER_SMALL_TALK - 1
            if (at_pause or index == len(examples) - 1) and small_talk:
                lines += [f"Request: {small_talk.pop(0)}", f"Tool: {ANSWER}"]
    return "\n".join([*lines, f"Request: {last_request(messages)}", "Tool:"])


def _first_sentence(tool: Mapping[str, Any]) -> str:
    description = " ".join(str(tool.get("description") or tool["name"]).split())
    return description.split(". ")[0].rstrip(".")


def choice_grammar(tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the GBNF grammar that allows one of the names, or "answer", and nothing else."""
    names = " | ".join(json.dumps(name) for name in [*(t["name"] for t in tools), ANSWER])
    return f'root ::= " " ({names})'


def arguments_prompt(tool: Mapping[str, Any], messages: Sequence[Message]) -> str:
    """Return the text after which the model writes the arguments of the chosen tool as one JSON object."""
    fields = ", ".join(tool["parameters"].get("properties", {})) or "nothing"
    return (
        "Fill in the fields from the request, as JSON.\n\n"
        "Request: Weather in Rome for 3 days, please\nFields: city, days\n"
        'JSON: {"city": "Rome", "days": 3}\n\n'
        "Request: Tell eve@firm.example that the talk is at noon\nFields: to, subject, body\n"
        'JSON: {"to": "eve@firm.example", "subject": "The talk", "body": "The talk is at noon."}\n\n'
        f"Request: {last_request(messages)}\nFields: {fields}\nJSON: "
    )


def bounded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema with a bound on each free string and array, so that the output ends.

    Bounds that are there already are kept when they are tighter. Strings with an enum, const, pattern or format are
    left alone: their grammar is bounded by itself.
    """
    result = {key: _bounded_value(key, value) for key, value in schema.items()}
    kind = result.get("type")
    if kind == "string" and not {"enum", "const", "pattern", "format"} & result.keys():
        result["maxLength"] = min(result.get("maxLength", STRING_LIMIT), STRING_LIMIT)
    if kind == "array":
        result["maxItems"] = min(result.get("maxItems", ITEM_LIMIT), ITEM_LIMIT)
    return result


def _bounded_value(key: str, value: Any) -> Any:
    if key in ("properties", "$defs", "definitions") and isinstance(value, dict):
        return {name: bounded(part) if isinstance(part, dict) else part for name, part in value.items()}
    if key in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
        return [bounded(part) if isinstance(part, dict) else part for part in value]
    if key in ("items", "additionalProperties") and isinstance(value, dict):
        return bounded(value)
    return value


def is_repeated(use: ToolUse, messages: Sequence[Message]) -> bool:
    """Tell whether the conversation already holds this very call."""
    return any((done.name, done.arguments) == (use.name, use.arguments) for m in messages for done in m.tool_calls)


def to_chat(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Return the conversation for the chat template, which knows no tools: calls and results become plain text."""
    called: dict[str, str] = {}
    chat: list[dict[str, str]] = []
    for message in messages:
        if message.role == "tool":
            name = called.get(message.tool_call_id or "", "the tool")
            chat.append({"role": "user", "content": f"Result of {name}:\n{message.content}"})
            continue
        called.update((use.id, use.name) for use in message.tool_calls)
        uses = [f"I use {use.name} with {json.dumps(use.arguments)}." for use in message.tool_calls]
        chat.append({"role": message.role, "content": "\n".join(filter(None, [message.content, *uses]))})
    return chat
