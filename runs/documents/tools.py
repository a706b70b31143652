"""The tools that read our own documents. A call sees its tenant's documents and no others."""

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from runs.database import read_in_thread
from runs.documents.search import find_passages
from runs.ids import BadId, parse_id, text_id
from runs.models import Document, Passage
from tools import ToolCall, ToolError, tool
from tools.effects import JSON

MAX_LISTED = 50


@tool(effect="read", timeout_seconds=20)
async def search_documents(
    call: ToolCall,
    query: Annotated[str, Field(min_length=1, max_length=2000)],
    documents: Annotated[list[str], Field(max_length=100)] | None = None,
    limit: Annotated[int, Field(ge=1, le=20)] = 8,
) -> JSON:
    """Search the uploaded documents for passages that answer a question. Returns the best passages with their file."""
    call.open()
    return await read_in_thread(_search, UUID(call.tenant_id), query, documents, limit)


@tool(effect="read", timeout_seconds=20)
async def read_document(
    call: ToolCall,
    document: Annotated[str, Field(min_length=1, max_length=300)],
    first: Annotated[int, Field(ge=0)] = 0,
    count: Annotated[int, Field(ge=1, le=20)] = 6,
) -> JSON:
    """Read passages of one uploaded document, by its id or file name, from passage number `first` on."""
    call.open()
    return await read_in_thread(_read, UUID(call.tenant_id), document, first, count)


def _search(tenant_id: UUID, query: str, documents: list[str] | None, limit: int) -> JSON:
    visible = Document.objects.filter(tenant_id=tenant_id)
    missing: list[JSON] = []
    if documents is not None:
        wanted = {text: _document_id(text) for text in documents}
        visible = visible.filter(pk__in=[pk for pk in wanted.values() if pk is not None])
        there = set(visible.values_list("pk", flat=True))
        missing = [text for text, pk in wanted.items() if pk not in there]
    hits = find_passages(
        tenant_id=tenant_id,
        question=query,
        document_ids=None if documents is None else list(visible.values_list("pk", flat=True)),
        limit=limit,
    )
    readable = visible.filter(error__isnull=True).order_by("name", "pk")
    unreadable = visible.filter(error__isnull=False).order_by("name", "pk")[:MAX_LISTED]
    return {
        "passages": [{**_passage(hit.passage, hit.passage.document), "score": round(hit.score, 4)} for hit in hits],
        "unreadable": [{"document_id": text_id("doc", d.pk), "name": d.name, "error": d.error} for d in unreadable],
        "missing": missing,
        "searched": [{"document_id": text_id("doc", d.pk), "name": d.name} for d in readable[:MAX_LISTED]],
        "searched_count": readable.count(),
    }


def _read(tenant_id: UUID, text: str, first: int, count: int) -> JSON:
    visible = Document.objects.filter(tenant_id=tenant_id)
    pk = _document_id(text)
    document = visible.filter(pk=pk).first() if pk else visible.filter(name=text).order_by("created_at", "pk").last()
    if document is None:
        raise ToolError(f"There is no document {text[:100]!r}.", code="no_such_document")
    if document.error is not None:
        raise ToolError(f"{document.name} {document.error}.", code="document_unreadable")
    passages = document.passages.defer("search").filter(ordinal__gte=first).order_by("ordinal")
    found = list(passages[: count + 1])
    return {
        "document_id": text_id("doc", document.pk),
        "name": document.name,
        "passages": [_passage(passage, document) for passage in found[:count]],
        "next": found[count].ordinal if len(found) > count else None,
    }


def _passage(passage: Passage, document: Document) -> dict[str, Any]:
    return {
        "document_id": text_id("doc", document.pk),
        "document": document.name,
        "ordinal": passage.ordinal,
        "place": passage.place,
        "text": passage.text,
    }


def _document_id(text: str) -> UUID | None:
    try:
        return parse_id("doc", text)
    except BadId:
        return None
