"""Change documents: upload, delete, and load the samples."""

import hashlib
import re
import unicodedata
from typing import IO
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from runs.access import Actor
from runs.conf import limits
from runs.documents.extract import Extracted, extract
from runs.documents.sample import sample_files
from runs.documents.search import search_vector
from runs.documents.selectors import get_document
from runs.errors import InvalidInput, NotAllowed, TooLarge
from runs.models import Document, Passage

CHUNK_BYTES = 1 << 16
NAME_CHARS = 200
CONTENT_TYPE = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}")
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f-\x9f\ud800-\udfff<>:"|?*\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]')


def upload_document(*, actor: Actor, name: str, content_type: str, data: bytes | IO[bytes]) -> Document:
    """Store a file as text passages and return it; the same name with the same content is the same document.

    A file that cannot be read is stored too, with `error` ("is protected by a password"), so that reports can name it.
    No transaction is open while the file is read; two uploads of the same file at once give one row.
    Raises: NotAllowed; InvalidInput for field "file" (no usable name), TooLarge for field "file". Then nothing is kept.
    """
    actor.require("document.write")
    clean_name = safe_name(name)
    content = _read_bounded(data)
    digest = hashlib.sha256(content).hexdigest()
    known = Document.objects.filter(tenant=actor.tenant, sha256=digest, name=clean_name).first()
    if known is not None:
        return known
    return _store(actor, clean_name, content_type, content, digest, extract(clean_name, content))


def delete_document(*, actor: Actor, document_id: UUID) -> None:
    """Delete a document with its passages. Reports that quote it keep their quotations.

    Raises: NotFound; NotAllowed when somebody else uploaded it and the caller is no operator.
    """
    document = get_document(actor, document_id)
    is_own = document.uploaded_by_id == actor.user.pk and actor.may("document.write")
    if not is_own and not actor.may("operation.settle"):
        raise NotAllowed("document.delete")
    document.delete()


def load_samples(actor: Actor) -> list[Document]:
    """Upload the sample documents; a second call changes nothing. Raises: NotAllowed."""
    return [
        upload_document(actor=actor, name=file.name, content_type=file.content_type, data=file.content)
        for file in sample_files()
    ]


def safe_name(name: str) -> str:
    """Return the last part of a file name without control, direction and wildcard characters; its end is kept.

    Raises: InvalidInput for field "file" when nothing is left.
    """
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", _NOT_IN_NAMES.sub("", name)))[-1]
    clean = re.sub(r"\s+", " ", last).strip(" .")
    if not clean:
        raise InvalidInput("file", _("The file has no usable name. Rename it and upload it again."))
    if len(clean) <= NAME_CHARS:
        return clean
    stem, dot, extension = clean.rpartition(".")
    if not dot or len(extension) > 10:
        return clean[:NAME_CHARS]
    return f"{stem[: NAME_CHARS - len(extension) - 1]}.{extension}"


def _read_bounded(data: bytes | IO[bytes]) -> bytes:
    most = limits().max_upload_bytes
    message = _("The file is larger than %(limit)s MB. Split it, or upload the part that matters.") % {
        "limit": most >> 20
    }
    if isinstance(data, bytes):
        if len(data) > most:
            raise TooLarge("file", message)
        return data
    parts: list[bytes] = []
    size = 0
    while chunk := data.read(CHUNK_BYTES):
        size += len(chunk)
        if size > most:
            raise TooLarge("file", message)
        parts.append(chunk)
    return b"".join(parts)


def _store(actor: Actor, name: str, content_type: str, content: bytes, digest: str, extracted: Extracted) -> Document:
    with transaction.atomic():
        document, is_new = Document.objects.get_or_create(
            tenant=actor.tenant,
            sha256=digest,
            name=name,
            defaults={
                "uploaded_by": actor.user,
                "content_type": content_type if CONTENT_TYPE.fullmatch(content_type) else "application/octet-stream",
                "size_bytes": len(content),
                "error": extracted.error,
            },
        )
        if is_new:
            Passage.objects.bulk_create(
                [
                    Passage(
                        document=document,
                        ordinal=ordinal,
                        place=piece.place,
                        text=piece.text,
                        search=search_vector(name=name, place=piece.place, text=piece.text),
                    )
                    for ordinal, piece in enumerate(extracted.passages)
                ],
                batch_size=500,
            )
    return document
