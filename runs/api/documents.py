"""Documents over HTTP: upload some, list, read, delete."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Router

from runs.api.answers import json_answer
from runs.api.auth import actor_of
from runs.api.lists import Order, read_page, refuse_unknown_parameters
from runs.api.problems import BadRequest, TooLarge, WrongContentType
from runs.api.schemas import DocumentOut, ErrorEnvelope, ListOut
from runs.api.uploads import MAX_FILES_AT_ONCE
from runs.api.write_rows import write_document
from runs.documents.selectors import get_document, visible_documents
from runs.documents.services import delete_document, safe_name, upload_document
from runs.ids import parse_id

router = Router(tags=["documents"])

UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"file": {"type": "array", "items": {"type": "string", "format": "binary"}}},
                    "required": ["file"],
                }
            }
        },
    }
}


@router.post(
    "/documents",
    response={201: ListOut[DocumentOut], 400: ErrorEnvelope, 413: ErrorEnvelope, 415: ErrorEnvelope},
    operation_id="upload_documents",
    openapi_extra=UPLOAD_BODY,
)
def upload_documents(request: HttpRequest) -> HttpResponse:
    """Upload one or more files (txt, md, html, pdf, docx) as multipart/form-data, field `file`, repeated.

    A file that cannot be read is kept with the reason in `error`. The same file again is the same document.
    """
    actor = actor_of(request)
    actor.require("document.write")
    if request.content_type != "multipart/form-data":
        raise WrongContentType(_("Send the files as multipart/form-data."), param="Content-Type")
    files = [file for name in request.FILES for file in request.FILES.getlist(name)]
    if not files:
        raise BadRequest(_("Send at least one file, in the field `file`."), param="file")
    if len(files) > MAX_FILES_AT_ONCE:
        raise TooLarge(_("Send at most %(n)d files at once.") % {"n": MAX_FILES_AT_ONCE}, param="file")
    for file in files:
        safe_name(file.name or "")  # all names before the first file, so that nothing is half-stored
    rows = [
        upload_document(actor=actor, name=file.name or "", content_type=file.content_type or "", data=file)
        for file in files
    ]
    body = {"object": "list", "data": [write_document(row) for row in rows], "has_more": False, "next_cursor": None}
    return json_answer(body, status=201)


@router.get("/documents", response={200: ListOut[DocumentOut], 400: ErrorEnvelope}, operation_id="list_documents")
def list_documents(
    request: HttpRequest, q: str | None = None, limit: int = 20, cursor: str | None = None
) -> HttpResponse:
    """List the documents of the workspace, newest first; `q` looks in names."""
    refuse_unknown_parameters(request, ("q",))
    rows = visible_documents(actor_of(request))
    if q:
        rows = rows.filter(name__icontains=q)
    return json_answer(read_page(rows, request, Order("created_at", is_newest_first=True)).body(write_document))


@router.get(
    "/documents/{document_id}",
    response={200: DocumentOut, 404: ErrorEnvelope},
    operation_id="get_document",
)
def read_document(request: HttpRequest, document_id: str) -> HttpResponse:
    """Read what is known of one document."""
    return json_answer(write_document(get_document(actor_of(request), _read_id(document_id))))


@router.delete(
    "/documents/{document_id}",
    response={204: None, 403: ErrorEnvelope, 404: ErrorEnvelope},
    operation_id="delete_document",
)
def remove_document(request: HttpRequest, document_id: str) -> HttpResponse:
    """Delete a document; reports that quote it keep their quotations."""
    delete_document(actor=actor_of(request), document_id=_read_id(document_id))
    return HttpResponse(status=204)


def _read_id(text: str) -> UUID:
    return parse_id("doc", text)
