// The line under the Stop button; the same sentences as runs/pages/stop_words.py, with times in the reader's zone.

import { asText } from "./present.js";
import { clock, fill, gettext, ngettext, writeSeconds } from "./words.js";

export function stopLine(view, { words, people, now, isLate }) {
  switch (view.status) {
    case "queued": return gettext("Not started. Stops at once.");
    case "waiting": return waiting(view.waiting ?? {});
    case "cancel_requested":
    case "cancelling": return stopping(view, now);
    case "cancelled": return stopped(view, words, people) + forced(view);
    case "needs_reconciliation": return gettext("No more work runs.") + forced(view);
    case "completed":
    case "failed": return isLate ? gettext("It finished before your stop took effect.") : "";
    default: return "";
  }
}

// Past the stop deadline something is slow: the page says so instead of turning for ever.
export function isSlow(view, now) {
  const at = Date.parse(view.cancel?.stop_deadline_at ?? "");
  return ["cancel_requested", "cancelling"].includes(view.status) && now > at;
}

function waiting(what) {
  if (what.waiting_for === "input") return gettext("Waits for your answer. Nothing is running.");
  if (what.waiting_for === "child") return gettext("Waits for the runs that it began.");
  return fill(gettext("Waits until %(at)s. Nothing is running."), { at: clock(what.wake_at) });
}

function stopping(view, now) {
  const parts = [fill(gettext("Recorded %(at)s. No new step will start."), { at: clock(view.cancel?.requested_at) })];
  const open = view.steps.filter((step) => step.state === "open");
  if (isSlow(view, now)) {
    parts.push(open.length
      ? fill(gettext("Slower than usual: waiting for %(list)s."), { list: open.map((s) => `“${asText(s.name)}”`).join(", ") })
      : gettext("Slower than usual: it ends as soon as a supervisor looks at it."));
  } else if (open.length) {
    parts.push(fill(ngettext("Waiting for %(n)s step.", "Waiting for %(n)s steps.", open.length), { n: open.length }));
  }
  return parts.join(" ");
}

function stopped(view, words, people) {
  const cancel = view.cancel ?? {};
  const who = ["user", "operator"].includes(cancel.reason) ? people[String(cancel.by)] : undefined;
  const took = (Date.parse(view.terminal_at) - Date.parse(cancel.requested_at)) / 1000;
  const at = clock(view.terminal_at);
  const parts = [];
  if (who && took >= 0) parts.push(fill(gettext("By %(who)s, %(at)s (%(took)s)."), { who, at, took: writeSeconds(took) }));
  else if (who) parts.push(fill(gettext("By %(who)s, %(at)s."), { who, at }));
  else parts.push(`${words.reason[cancel.reason] ?? words.reason.user}.`);
  const done = (cancel.effects ?? []).filter((e) => e?.outcome === "committed").map((e) => asText(e.external_id || e.name));
  if (done.length) parts.push(fill(gettext("Already done before the stop: %(list)s."), { list: done.join(", ") }));
  return parts.join(" ");
}

function forced(view) {
  return view.cancel?.forced ? ` ${gettext("An operator ended it without waiting for its worker.")}` : "";
}
