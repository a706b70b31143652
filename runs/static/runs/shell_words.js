// What a shell's page says: pure, so Node can test it.

import { clock, countdown, fill, gettext, ngettext, writeSeconds } from "./words.js";

// {code, signal, why} of an `exit` frame.
export function exitText({ code, signal, why }) {
  const how = code !== null && code !== undefined ? fill(gettext("exit %(code)s"), { code })
    : signal ? fill(gettext("killed by signal %(n)s"), { n: signal }) : "";
  const reason = {
    exited: "", user: gettext("stopped"), operator: gettext("stopped by an operator"), deadline: gettext("its time was up"),
    client_gone: gettext("nobody came back in time"), policy: gettext("its rights or budget ended"),
    parent: gettext("stopped with the run that began it"), failed: gettext("its run failed"),
    needs_reconciliation: gettext("its end is being verified"),
  }[why] ?? "";
  const said = [reason, how].filter(Boolean).join(", ");
  return said ? fill(gettext("Ended: %(how)s"), { how: said }) : gettext("Ended");
}

export function graceText(seconds) {
  return fill(gettext("Nobody is in control. The shell ends in %(left)s unless someone takes control."), { left: countdown(seconds) });
}

export function reattachedText(at, awaySeconds, bytes) {
  const parts = { at: clock(at).slice(0, 5), away: writeSeconds(awaySeconds) };
  return bytes > 0
    ? fill(gettext("Reattached %(at)s; what was printed in %(away)s away is here."), parts)
    : fill(gettext("Reattached %(at)s after %(away)s; nothing was printed meanwhile."), parts);
}

export function skippedText(bytes) {
  return fill(ngettext("%(n)s byte of output was too much to keep and is not shown.", "%(n)s bytes of output were too much to keep and are not shown.", bytes), { n: bytes.toLocaleString(document.documentElement.lang) });
}

// {name, mine, generation} of a `pilot` frame; {opened_by, held_by} of a `run` frame; me: the name of who reads.
export function pilotText({ name, mine, generation }, { opened_by, held_by } = {}, me = null) {
  if (opened_by === "agent") {
    if (mine) return gettext("You have taken over. The agent waits until you hand it back.");
    return held_by ? fill(gettext("%(name)s has taken over. The agent waits until it is handed back."), { name: held_by }) : gettext("An agent types here");
  }
  if (mine) return gettext("You are in control");
  if (generation !== null && name === me) return gettext("Another window of yours is in control");
  return generation === null ? gettext("Nobody is in control") : fill(gettext("%(name)s is in control"), { name });
}

const MOST_NAMES = 5;

// {people: [{name, mine}], others} of a `watching` frame: who else watches; the same as runs/pages/shells.py.
export function watchingText({ people, others }) {
  const names = people.filter((one) => !one.mine).map((one) => one.name);
  const more = Math.max(0, names.length - MOST_NAMES) + others;
  const shown = names.slice(0, MOST_NAMES);
  if (more) shown.push(fill(gettext("%(n)s more"), { n: more }));
  return shown.length ? fill(gettext("Watching: %(names)s"), { names: shown.join(", ") }) : "";
}

// What a screen reader is told when who watches has changed: those who came, and those who went; "" for nobody.
export function watchersChangedText(before, after) {
  const came = after.filter((name) => !before.includes(name)), went = before.filter((name) => !after.includes(name));
  return [
    came.length ? fill(gettext("%(names)s: now watching."), { names: came.join(", ") }) : "",
    went.length ? fill(gettext("%(names)s: watching no more."), { names: went.join(", ") }) : "",
  ].filter(Boolean).join(" ");
}

export function lostInputText(bytes) {
  return fill(ngettext("%(n)s typed byte did not reach the shell.", "%(n)s typed bytes did not reach the shell.", bytes), { n: bytes });
}
