"""Files that runs made. A download is an attachment of a harmless kind: it can never run in our origin."""

import re

from django.http import HttpRequest, HttpResponse
from django.utils.http import content_disposition_header
from ninja import Router

from runs import selectors
from runs.api.answers import json_answer
from runs.api.lists import Order, read_page, refuse_unknown_parameters
from runs.api.runs import find_run
from runs.api.schemas import ArtifactOut, ErrorEnvelope, ListOut
from runs.api.write_rows import write_artifact
from runs.ids import parse_id
from runs.models import Artifact

router = Router(tags=["artifacts"])

# Kinds that a browser shows but never runs. Everything else goes out as bytes without a kind.
HARMLESS = frozenset(
    {"text/plain", "text/markdown", "text/csv", "application/json", "application/pdf", "image/png", "image/jpeg"}
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f/\\]")


@router.get(
    "/runs/{run_id}/artifacts",
    response={200: ListOut[ArtifactOut], 404: ErrorEnvelope},
    operation_id="list_artifacts",
)
def list_artifacts(request: HttpRequest, run_id: str, limit: int = 20, cursor: str | None = None) -> HttpResponse:
    """List the files that a run has made so far, oldest first."""
    refuse_unknown_parameters(request, ())
    rows = Artifact.objects.filter(run=find_run(request, run_id)).defer("content")
    return json_answer(read_page(rows, request, Order("created_at", is_newest_first=False)).body(write_artifact))


@router.get(
    "/runs/{run_id}/artifacts/{artifact_id}",
    response={404: ErrorEnvelope},
    operation_id="download_artifact",
    openapi_extra={"responses": {200: {"description": "The file", "content": {"*/*": {}}}}},
)
def download_artifact(request: HttpRequest, run_id: str, artifact_id: str) -> HttpResponse:
    """Download a file that a run made."""
    run = find_run(request, run_id)
    return attachment(selectors.get_artifact(run, parse_id("art", artifact_id)))


def attachment(artifact: Artifact) -> HttpResponse:
    """Answer with the content of an artifact so that no browser executes it with our cookies."""
    kind = artifact.content_type.partition(";")[0].strip().lower()
    is_text = kind.startswith("text/")
    content_type = "application/octet-stream"
    if kind in HARMLESS:
        content_type = f"{kind}; charset=utf-8" if is_text else kind
    name = _CONTROLS.sub("_", artifact.name) or "artifact"
    return HttpResponse(
        bytes(artifact.content),
        content_type=content_type,
        headers={
            "Content-Disposition": content_disposition_header(True, name) or "attachment",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "private, no-store",
            "ETag": f'"{artifact.sha256}"',
        },
    )
