"""The line under the Stop button: what a stop would do, is doing, or did. One sentence or two for each state.

`runs/static/runs/stop_words.js` says the same for what arrives later.
"""

from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from runs.pages import words

type View = dict[str, Any]


def stop_line(view: View, *, people: dict[str, str], is_late: bool = False) -> str:
    """Say what stopping means for a run in its present state; empty where there is nothing to say."""
    status = view["status"]
    if status == "queued":
        return _("Not started. Stops at once.")
    if status == "waiting":
        return _waiting(view["waiting"] or {})
    if status in ("cancel_requested", "cancelling"):
        return _stopping(view)
    if status == "cancelled":
        return _stopped(view, people) + _forced(view)
    if status == "needs_reconciliation":
        return _("No more work runs.") + _forced(view)
    if is_late and status in ("completed", "failed"):
        return _("It finished before your stop took effect.")
    return ""


def _waiting(waiting: View) -> str:
    if waiting.get("waiting_for") == "input":
        return _("Waits for your answer. Nothing is running.")
    if waiting.get("waiting_for") == "child":
        return _("Waits for the runs that it began.")
    return _("Waits until %(at)s. Nothing is running.") % {"at": clock(waiting.get("wake_at"))}


def _stopping(view: View) -> str:
    cancel = view["cancel"] or {}
    line = _("Recorded %(at)s. No new step will start.") % {"at": clock(cancel.get("requested_at"))}
    waits = sum(step["state"] == "open" for step in view["steps"])
    if waits:
        line += " " + ngettext("Waiting for %(n)s step.", "Waiting for %(n)s steps.", waits) % {"n": waits}
    return line


def _stopped(view: View, people: dict[str, str]) -> str:
    cancel = view["cancel"] or {}
    who = people.get(str(cancel.get("by"))) if cancel.get("reason") in ("user", "operator") else None
    reason = words.CANCEL_REASON.get(cancel.get("reason") or "user", words.CANCEL_REASON["user"])
    parts = [_("By %(who)s, %(at)s.") % {"who": who, "at": clock(view["terminal_at"])} if who else f"{reason}."]
    done = [
        e.get("external_id") or e.get("name") or ""
        for e in cancel.get("effects") or []
        if isinstance(e, dict) and e.get("outcome") == "committed"
    ]
    if done:
        parts.append(_("Already done before the stop: %(list)s.") % {"list": ", ".join(map(str, done))})
    return " ".join(parts)


def _forced(view: View) -> str:
    is_forced = (view["cancel"] or {}).get("forced")
    return " " + _("An operator ended it without waiting for its worker.") if is_forced else ""


def clock(at: str | None) -> str:
    """Write the time of day of a frame's time, in UTC: the browser says it again in the reader's zone."""
    if not at:
        return "?"
    try:
        return f"{datetime.fromisoformat(at).astimezone(UTC):%H:%M:%S} UTC"
    except ValueError:
        return "?"
