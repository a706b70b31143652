"""The target's one page for people: what happened, and forms that flip the switches; works without scripts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from tools.target.ledger import Effect
from tools.target.switches import GOOD, Switches

ROWS = 200  # newest effects that are shown
_LABELS = {
    "refuse": "Refuse: no effect, a certain no",
    "fail_after_effect": "Fail after the effect (HTTP 500, SMTP 451)",
    "drop_after_commit": "Reset the connection after the effect",
    "never_answer": "Never answer after the effect",
    "lookup_fails": "Look-ups answer 503",
}
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
form { display: inline-block; margin: 0 1rem 1rem 0; vertical-align: top }
label { display: block; margin: .3rem 0 }
input[type=text], input[type=number] { width: 14rem; font: inherit }
button { font: inherit; min-height: 44px; padding: 0 1rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid; vertical-align: top }
code { overflow-wrap: anywhere }
"""


def render_page(effects: Sequence[Effect], now: Switches) -> str:
    """Return the page; every value that came from outside is escaped."""
    state = "The switches are off: the target behaves well." if now == GOOD else "Some switches are on."
    rows = "".join(_row(effect) for effect in reversed(effects[-ROWS:]))
    table = (
        "<div class=scroll><table><thead><tr><th>When (UTC)<th>What<th>Id<th>Fence<th>Operation key<th>Details"
        f"</tr></thead><tbody>{rows}</tbody></table></div>"
        if rows
        else "<p>Nothing happened yet.</p>"
    )
    return (
        '<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width">'
        f"<title>Outlive demo target</title><style>{_STYLE}</style></head><body><h1>Demo target</h1>"
        "<p>An outside system for demos and tests. Its answers can be lost on purpose; its effects cannot.</p>"
        f"<h2>Switches</h2><p role=status>{state}</p>{_form(now)}"
        '<form method=post action="/switches"><button>All switches off</button></form>'
        f"<h2>Effects ({len(effects)})</h2>{table}</body></html>"
    )


def _form(now: Switches) -> str:
    boxes = "".join(
        f'<label><input type=checkbox name="{name}" value=1{" checked" if getattr(now, name) else ""}> {label}</label>'
        for name, label in _LABELS.items()
    )
    return (
        f'<form method=post action="/switches">{boxes}'
        f"<label>Delay the answer, seconds <input type=number name=delay_seconds min=0 max=3600 step=any "
        f'value="{now.delay_seconds:g}"></label>'
        f"<label>Only keys that start with <input type=text name=key_prefix "
        f'value="{escape(now.key_prefix or "")}"></label>'
        f"<label>Only so many times <input type=number name=times min=1 "
        f'value="{now.times if now.times is not None else ""}"></label><button>Set switches</button></form>'
    )


def _row(effect: Effect) -> str:
    when = datetime.fromtimestamp(effect.at, UTC)
    details = ", ".join(f"{name}: {value}" for name, value in effect.data.items() if name not in ("id", "status"))
    cells = [
        f'<time datetime="{when.isoformat()}">{when:%Y-%m-%d %H:%M:%S}</time>',
        escape(effect.kind),
        f"<code>{escape(effect.id)}</code>",
        "-" if effect.fence is None else str(effect.fence),
        f"<code>{escape(effect.key)}</code>",
        escape(details[:500]),
    ]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
