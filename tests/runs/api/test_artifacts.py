"""Downloads of what runs made: whole, and unable to run in our origin."""

import hashlib
from typing import Any

import pytest

from runs.api.schemas import ArtifactOut, ListOut
from runs.ids import parse_id, text_id
from runs.models import Artifact
from tests.runs.api.conftest import Caller, error_of


def an_artifact(
    run: dict[str, Any], *, name: str = "report.md", kind: str = "text/markdown", content: bytes = b"# hi"
) -> str:
    row = Artifact.objects.create(
        run_id=parse_id("run", run["id"]), name=name, content_type=kind, content=content, size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )  # fmt: skip
    return text_id("art", row.id)


def test_artifacts_are_listed_oldest_first_with_their_address(owner: Caller) -> None:
    run = owner.create()
    first, second = an_artifact(run, name="a.md"), an_artifact(run, name="b.md", content=b"12345")
    page = owner.get(f"/runs/{run['id']}/artifacts").json()
    ListOut[ArtifactOut].model_validate(page)
    assert [(item["id"], item["name"], item["bytes"]) for item in page["data"]] == [
        (first, "a.md", 4),
        (second, "b.md", 5),
    ]
    response = owner.client.get(page["data"][1]["links"]["content"], headers={"Authorization": f"Bearer {owner.token}"})
    assert (response.status_code, response.content) == (200, b"12345")


@pytest.mark.parametrize(
    ("kind", "sent_as"),
    [
        ("text/markdown", "text/markdown; charset=utf-8"),
        ("application/pdf", "application/pdf"),
        ("text/html", "application/octet-stream"),
        ("image/svg+xml", "application/octet-stream"),
        ("text/javascript", "application/octet-stream"),
        ("application/xhtml+xml", "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)
def test_a_download_cannot_run_in_our_origin(owner: Caller, kind: str, sent_as: str) -> None:
    run = owner.create()
    script = b"<script>alert(document.cookie)</script>"
    artifact_id = an_artifact(run, name="x.html", kind=kind, content=script)
    response = owner.get(f"/runs/{run['id']}/artifacts/{artifact_id}")
    assert response.content == script
    assert response["Content-Type"] == sent_as
    assert response["Content-Disposition"].startswith("attachment")
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert response["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "no-store" in response["Cache-Control"]


@pytest.mark.parametrize(
    "name", ['a"b.md', "a\r\nSet-Cookie: x=1.md", "../../etc/passwd", "报告.md", "a\x00b", "\u202egnp.exe", " "]
)
def test_any_name_gives_a_safe_header(owner: Caller, name: str) -> None:
    run = owner.create()
    artifact_id = an_artifact(run, name=name.replace("\x00", ""), content=b"x")
    response = owner.get(f"/runs/{run['id']}/artifacts/{artifact_id}")
    assert response.status_code == 200
    header = response["Content-Disposition"]
    assert header.isascii()
    assert header.startswith("attachment; filename")
    assert "Set-Cookie" not in response.headers
    assert "/" not in header


def test_an_artifact_of_another_run_is_404(owner: Caller) -> None:
    run, other = owner.create(), owner.create()
    artifact_id = an_artifact(run)
    for path in (
        f"/runs/{other['id']}/artifacts/{artifact_id}",
        f"/runs/{run['id']}/artifacts/art_{'0' * 32}",
        f"/runs/{run['id']}/artifacts/{artifact_id.replace('art_', 'doc_')}",
    ):
        response = owner.get(path)
        assert response.status_code == 404
        error_of(response)
