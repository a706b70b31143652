// Text for people in their language: Django's JavaScriptCatalog where it is loaded, else the English words.

const catalog = globalThis.django;

export const gettext = (text) => (catalog?.gettext ? catalog.gettext(text) : text);

export function ngettext(one, many, n) {
  if (catalog?.ngettext) return catalog.ngettext(one, many, n);
  return n === 1 ? one : many;
}

// Fill `%(name)s` places, like Python does.
export const fill = (text, values) => text.replace(/%\((\w+)\)s/g, (_all, name) => String(values[name] ?? ""));

const language = document.documentElement.lang || "en";

const clockStyle = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const dayStyle = new Intl.DateTimeFormat(language, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const fullStyle = new Intl.DateTimeFormat(language, { dateStyle: "full", timeStyle: "long" });
const ageStyle = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" });

export function clock(text) {
  const at = new Date(text ?? "");
  return Number.isNaN(at.getTime()) ? "?" : clockStyle.format(at);
}

// The time of day, with the date when it is another day.
export function moment(at) {
  return at.toDateString() === new Date().toDateString() ? clockStyle.format(at) : dayStyle.format(at);
}

export const full = (at) => fullStyle.format(at);

export function age(at, now) {
  const seconds = (at.getTime() - now) / 1000;
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (Math.abs(seconds) >= length) return ageStyle.format(Math.trunc(seconds / length), unit);
  }
  return ageStyle.format(Math.trunc(seconds), "second");
}

// How long something took; the same as runs/pages/present.py write_seconds.
export function writeSeconds(seconds) {
  if (seconds < 60) {
    return fill(gettext("%(n)s s"), { n: seconds < 10 ? (Math.trunc(seconds * 10) / 10).toFixed(1) : Math.trunc(seconds) });
  }
  const whole = Math.trunc(seconds);
  const two = (n) => String(n).padStart(2, "0");
  if (whole < 3600) return fill(gettext("%(m)s min %(s)s s"), { m: Math.trunc(whole / 60), s: two(whole % 60) });
  return fill(gettext("%(h)s h %(m)s min"), { h: Math.trunc(whole / 3600), m: two(Math.trunc((whole % 3600) / 60)) });
}

// 14:32, or 1:02:03.
export function countdown(seconds) {
  const whole = Math.max(0, Math.ceil(seconds));
  const two = (n) => String(n).padStart(2, "0");
  const [h, m, s] = [Math.trunc(whole / 3600), Math.trunc(whole / 60) % 60, whole % 60];
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}
