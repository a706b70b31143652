import pytest

from runs.models import Artifact
from runs.pages.artifacts import PREVIEW_BYTES, preview, render_markdown, show_artifacts
from tests.runs.pages.scenes import Scene


@pytest.mark.parametrize(
    ("source", "gone"),
    [
        ("<script>alert(1)</script>", "<script"),
        ("[x](javascript:alert(1))", 'href="javascript'),
        ("![x](https://example.invalid/pixel.png)", "<img"),
        ("<a href='https://e.invalid' onclick='x()'>x</a>", "<a href='https"),
        ('[x](https://e.invalid "a\\" onmouseover=\\"x")', 'onmouseover="'),
    ],
)
def test_markdown_brings_no_markup_of_its_own(source, gone):
    assert gone not in render_markdown(source)


def test_markdown_is_rendered():
    html = render_markdown("# T\n\n- a\n\n|x|y|\n|-|-|\n|1|2|\n\n[l](https://example.invalid)")
    for part in ("<h1>T</h1>", "<li>a</li>", "<td>1</td>", 'href="https://example.invalid"', "noopener"):
        assert part in html


def test_only_text_that_is_utf8_has_a_preview():
    assert preview(Artifact(content_type="text/plain", content=b"a<b")) == "<pre>a&lt;b</pre>"
    assert preview(Artifact(content_type="text/plain", content=b"\xff\xfe")) == ""
    assert preview(Artifact(content_type="text/html", content=b"<b>")) == ""


def test_a_large_artifact_is_listed_without_a_preview(owner):
    scene = Scene(owner)
    scene.artifact(content=b"x" * (PREVIEW_BYTES + 1), kind="text/plain")
    shown = show_artifacts(scene.run)
    assert (shown[0]["bytes"], shown[0]["html"]) == (PREVIEW_BYTES + 1, "")
    assert shown[0]["url"].startswith("/api/v1/runs/run_")
