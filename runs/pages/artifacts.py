"""What a run made, on its page: a line with a download, and a safe preview of Markdown and plain text."""

from typing import Any

import nh3
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from runs.ids import text_id
from runs.models import Artifact, Run

PREVIEW_BYTES = 200_000
MOST_PREVIEWS = 3
# No images: a picture would fetch from wherever the text says. Links open without telling where they came from.
TAGS = {
    "h1", "h2", "h3", "h4", "h5", "h6", "p", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "a", "hr",
    "br", "table", "thead", "tbody", "tr", "th", "td", "s", "del",
}  # fmt: skip
_markdown = MarkdownIt("commonmark", {"html": False}).enable("table").enable("strikethrough")


def show_artifacts(run: Run) -> list[dict[str, Any]]:
    """Give the artifacts of a run, the first few with a preview."""
    listed: list[dict[str, Any]] = []
    for artifact in run.artifacts.defer("content"):
        has_preview = len(listed) < MOST_PREVIEWS and artifact.size_bytes <= PREVIEW_BYTES
        listed.append(
            {
                "id": text_id("art", artifact.pk),
                "name": artifact.name,
                "bytes": artifact.size_bytes,
                "url": f"/api/v1/runs/{text_id('run', run.pk)}/artifacts/{text_id('art', artifact.pk)}",
                "html": preview(artifact) if has_preview else "",
            }
        )
    return listed


def preview(artifact: Artifact) -> SafeString | str:
    """Render Markdown as clean HTML and plain text as it is; nothing for other types or what is no UTF-8."""
    kind = artifact.content_type.partition(";")[0].strip()
    if kind not in ("text/markdown", "text/plain"):
        return ""
    try:
        text = bytes(artifact.content).decode()
    except UnicodeDecodeError:
        return ""
    if kind == "text/plain":
        return format_html("<pre>{}</pre>", text)
    return render_markdown(text)


def render_markdown(text: str) -> SafeString:
    """Render Markdown that anybody may have written: raw HTML stays text, and the result is cleaned once more."""
    clean = nh3.clean(
        _markdown.render(text), tags=TAGS, attributes={"a": {"href", "title"}}, url_schemes={"http", "https", "mailto"}
    )
    return mark_safe(clean)
