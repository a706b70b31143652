"""Read documents: what a tenant has, and what of it can be read."""

from uuid import UUID

from django.db.models import Count, QuerySet

from runs.access import Actor
from runs.errors import NotFound
from runs.models import Document, Passage


def visible_documents(actor: Actor) -> QuerySet[Document]:
    """Return the tenant's documents by name, each with `passage_count`. Raises: NotAllowed."""
    actor.require("run.read")
    return Document.objects.filter(tenant=actor.tenant).annotate(passage_count=Count("passages")).order_by("name", "id")


def get_document(actor: Actor, document_id: UUID) -> Document:
    """Return one document. Raises: NotFound, also for one of another tenant; NotAllowed."""
    document = visible_documents(actor).filter(pk=document_id).first()
    if document is None:
        raise NotFound("document")
    return document


def passages_of(document: Document) -> QuerySet[Passage]:
    """Return the passages of a document in order."""
    return document.passages.defer("search").order_by("ordinal")
