"""Template tags: an icon, a time, a status badge. What a page writes often, written one way."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from runs import ids
from runs.frames import write_time
from runs.pages.present import write_seconds
from runs.pages.words import STATUS

register = template.Library()


@register.simple_tag
def icon(name: str, classes: str = "") -> SafeString:
    """Draw one symbol of icons.svg; decoration only, the word stands beside it."""
    return format_html(
        '<svg class="icon{}" aria-hidden="true"><use href="{}#{}"/></svg>',
        f" {classes}" if classes else "",
        static("runs/icons.svg"),
        name,
    )


@register.simple_tag
def status_badge(status: str, size: str = "") -> SafeString:
    """Say a run's status by icon, word and colour."""
    word = STATUS[status]
    return format_html(
        '<span class="badge{}" data-tone="{}" data-status="{}">{}<span>{}</span></span>',
        f" {size}" if size else "",
        word.tone,
        status,
        icon(word.icon, "spins" if word.icon == "running" else ""),
        word.text,
    )


@register.simple_tag
def moment(at: datetime | str | None, style: str = "time") -> SafeString | str:
    """Write a time that the browser turns into the reader's zone; without JavaScript it reads as UTC.

    Args: at: aware datetime, or a frame's text; style: "time" (clock, date when not today), "age" (how long ago),
            "left" (a countdown).
    """
    if at is None:
        return ""
    if isinstance(at, str):
        at = datetime.fromisoformat(at)
    at = at.astimezone(UTC)
    return format_html(
        '<time datetime="{}" data-style="{}">{}</time>', write_time(at), style, f"{at:%Y-%m-%d %H:%M:%S} UTC"
    )


@register.simple_tag
def took(begin: datetime | None, end: datetime | None) -> SafeString | str:
    """Say how long something took; what goes on is counted on by the browser. Empty before it began."""
    if begin is None or end is None:
        return moment(begin, "since")
    return write_seconds(max(0.0, (end - begin).total_seconds()))


@register.filter
def text_id(value: UUID, prefix: str) -> str:
    """Write an id for the outside: `{{ run.id|text_id:"run" }}`."""
    return ids.text_id(prefix, value)


@register.filter
def translated(text: str) -> str:
    """Say a text that was written outside the pages in the reader's language, where we know it."""
    return gettext(text) if text else ""


@register.filter
def size(value: Any) -> str:
    """Write a size in bytes for people: 512 B, 1.4 kB, 3.2 MB."""
    amount = float(value)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
