"""What the rules of the fold are made of: reading a field of any JSON value, and changing one item of a list. Pure.

Nothing is changed in place but the dict of a view that is being made. The names are those of fold_parts.js.
"""

from typing import Any, NamedTuple

MAX_COUNT = 2**53 - 1  # what JavaScript can count to


class At(NamedTuple):
    """Which step a frame belongs to, and when it happened."""

    step_id: str | None
    ts: str | None


def text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    return value if is_count else None


def first_seq(frame: dict[str, Any]) -> int | None:
    """Give the first seq that a frame stands for: its own, or where a compacted text begins; None if it has none."""
    seq, data = count(frame.get("seq")), frame.get("data")
    if seq is not None and frame.get("type") == "text.compacted" and isinstance(data, dict):
        begin = count(data.get("from_seq"))
        return begin if begin is not None and 0 < begin <= seq else seq
    return seq


def pick(data: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: data.get(key) for key in keys}


def find(items: list[dict[str, Any]], key: str, value: str | None) -> int:
    """Give the place of the newest item with that id, or -1."""
    if value is not None:
        for i in range(len(items) - 1, -1, -1):
            if items[i][key] == value:
                return i
    return -1


def change(view: dict[str, Any], part: str, key: str, value: str | None, changed: dict[str, Any]) -> None:
    """Change one item of a list, if it is there."""
    items = view[part]
    i = find(items, key, value)
    if i >= 0:
        view[part] = [*items[:i], {**items[i], **changed}, *items[i + 1 :]]


def put(view: dict[str, Any], part: str, key: str, item: dict[str, Any]) -> None:
    """Add an item, or take the place of the one with the same id. An item without an id is left out."""
    items = view[part]
    i = find(items, key, item[key])
    if item[key] is not None:
        view[part] = [*items, item] if i < 0 else [*items[:i], item, *items[i + 1 :]]


def step_of(view: dict[str, Any], step_id: str | None) -> dict[str, Any] | None:
    i = find(view["steps"], "step_id", step_id)
    return view["steps"][i] if i >= 0 else None


def change_in_step(view: dict[str, Any], step_id: str | None, part: str, changed: dict[str, Any]) -> None:
    step = step_of(view, step_id)
    if step is not None and step[part] is not None:
        change(view, "steps", "step_id", step_id, {part: {**step[part], **changed}})
