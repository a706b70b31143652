"""The catalogue of translations in pure Python: read a .po, compile it, and find what the sources want to say.

A fresh machine has no gettext tools, so the .mo files are committed; `python -m tests.runs.pages.messages` compiles
them again and lists what has no translation yet.
"""

import ast
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parents[3]
LOCALE = ROOT / "runs" / "locale" / "zh_Hans" / "LC_MESSAGES"
NAMES = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", "ngettext_lazy"}
_STRING = r'"((?:[^"\\]|\\.)*)"'
_IN_SCRIPT = re.compile(rf"\bn?gettext\(\s*{_STRING}")
_IN_TEMPLATE = re.compile(r"""\bn?gettext\((?:u?'((?:[^'\\]|\\.)*)'|u?"((?:[^"\\]|\\.)*)")""")


def read_po(path: Path) -> dict[str, str]:
    """Read a .po as {msgid (with the plural after a NUL): msgstr}."""
    entries: dict[str, str] = {}
    for block in re.split(r"\n\s*\n", path.read_text()):
        parts: dict[str, str] = {}
        word = ""
        for line in block.splitlines():
            match = re.match(rf"(?:(msgid_plural|msgid|msgstr(?:\[0\])?) )?{_STRING}$", line)
            if match:
                word = match[1] or word
                parts[word] = parts.get(word, "") + _unescape(match[2])
        if "msgid" in parts:
            key = parts["msgid"] + ("\0" + parts["msgid_plural"] if "msgid_plural" in parts else "")
            entries[key] = parts.get("msgstr", parts.get("msgstr[0]", ""))
    return entries


def compile_mo(entries: dict[str, str]) -> bytes:
    """Compile a catalogue as msgfmt does: sorted, without a hash table."""
    pairs = sorted((k.encode(), v.encode()) for k, v in entries.items() if v)
    count, header = len(pairs), 28
    originals = header
    translations = originals + 8 * count
    at = translations + 8 * count
    tables: list[bytes] = []
    texts = b""
    for column in (0, 1):
        table = b""
        for pair in pairs:
            table += struct.pack("<II", len(pair[column]), at + len(texts))
            texts += pair[column] + b"\0"
        tables.append(table)
    head = struct.pack("<7I", 0x950412DE, 0, count, originals, translations, 0, at)
    return head + tables[0] + tables[1] + texts


def wanted(domain: str) -> set[str]:
    """Collect every msgid that the sources use: "django" (Python and templates) or "djangojs" (our modules)."""
    found: set[str] = set()
    if domain == "djangojs":
        for path in (ROOT / "runs" / "static").rglob("*.js"):
            found |= {_unescape(text) for text in _IN_SCRIPT.findall(path.read_text())}
        return found
    for part in ("config", "runs", "streaming"):
        for path in (ROOT / part).rglob("*.py"):
            found |= set(_in_python(path))
    for path in (ROOT / "templates").rglob("*.html"):
        for single, double in _IN_TEMPLATE.findall(templatize(path.read_text())):
            found.add(_unescape(single or double))
    return found


def missing(domain: str) -> set[str]:
    """Give the msgids of the sources that have no translation."""
    known = {key.partition("\0")[0] for key, text in read_po(LOCALE / f"{domain}.po").items() if text}
    return wanted(domain) - known


def _in_python(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMES and node.args:
            text = node.args[0]
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield text.value


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text)


def main() -> int:
    """Compile both catalogues, and list what is missing."""
    lacking = 0
    for domain in ("django", "djangojs"):
        (LOCALE / f"{domain}.mo").write_bytes(compile_mo(read_po(LOCALE / f"{domain}.po")))
        for text in sorted(missing(domain)):
            lacking += 1
            print(f"{domain}: no translation of {text!r}")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
