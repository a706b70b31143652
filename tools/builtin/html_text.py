"""Turns a page of HTML into its title and readable text. Blocking; runs in a child process."""

import re

from bs4 import BeautifulSoup

_SILENT = ("script", "style", "noscript", "template", "svg", "iframe", "head")


def extract_text(html: str) -> dict[str, str]:
    """Return {"title", "text"}: one line per block, no scripts, no runs of empty lines."""
    page = BeautifulSoup(html, "html.parser")
    title = page.title.get_text(" ", strip=True) if page.title else ""
    for tag in page(_SILENT):
        tag.decompose()
    lines = (re.sub(r"\s+", " ", line).strip() for line in page.get_text("\n").splitlines())
    return {"title": title, "text": "\n".join(line for line in lines if line)}
