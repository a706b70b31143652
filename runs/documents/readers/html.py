"""Read HTML: the visible text in blocks, with the heading that it stands under."""

import re
from collections.abc import Iterator

from bs4 import BeautifulSoup, Comment, Tag
from bs4.element import NavigableString

from runs.documents.passages import Block

HIDDEN = frozenset("script style noscript template head title svg nav iframe object select textarea".split())
HEADINGS = frozenset("h1 h2 h3 h4 h5 h6".split())
BLOCKS = HEADINGS | frozenset(
    """address article aside blockquote body caption dd details div dl dt fieldset figcaption figure footer form
    header hr li main ol p pre section summary table td th tr ul""".split()
)


def read_html(data: bytes) -> Iterator[Block]:
    """Yield the text blocks of a page. Cells of a table row stay together."""
    soup = BeautifulSoup(data, "html.parser")
    for tag in soup.find_all(list(HIDDEN)):
        tag.extract()
    place = ""
    held: list[str] = []
    current: Tag | None = None
    for node in soup.descendants:
        if not isinstance(node, NavigableString) or isinstance(node, Comment) or type(node) is not NavigableString:
            if isinstance(node, Tag) and node.name == "br":
                held.append("\n")
            continue
        owner = _block_of(node)
        if owner is not current:
            text = _clean(held)
            if text and current is not None and current.name in HEADINGS:
                place = text.replace("\n", " ")
            elif text:
                yield Block(text, place)
            held, current = [], owner
        held.append(str(node))
        if node.parent is not None and node.parent.name in ("td", "th"):
            held.append(" | ")
    text = _clean(held)
    if text and not (current is not None and current.name in HEADINGS):
        yield Block(text, place)


def _block_of(node: NavigableString) -> Tag | None:
    """Return the nearest block around a text; a cell belongs to its row."""
    for parent in node.parents:
        if parent.name in ("td", "th"):
            continue
        if parent.name in BLOCKS:
            return parent
    return None


def _clean(parts: list[str]) -> str:
    lines = (re.sub(r"\s+", " ", line).strip(" |") for line in "".join(parts).split("\n"))
    return "\n".join(line for line in lines if line)
