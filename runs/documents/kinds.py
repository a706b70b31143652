"""Tell what a file is from its name and its first bytes. Pure.

    .txt .text .log .csv   plain text          .pdf    starts with %PDF-
    .md .markdown          Markdown            .docx   a zip archive that holds word/document.xml
    .html .htm .xhtml      HTML

The name and the content must agree. Guessing would read a renamed program as text, or a web page as a contract.
"""

import io
import zipfile
from pathlib import PurePosixPath

from runs.documents.failures import Unreadable

KINDS = {
    ".txt": "text",
    ".text": "text",
    ".log": "text",
    ".csv": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
    ".docx": "docx",
}
NAMES = {"pdf": "a PDF", "docx": "a Word document", "zip": "a zip archive", "ole": "an old Office file"}
READABLE = "txt, md, html, pdf and docx files are read"


def find_kind(name: str, data: bytes) -> str:
    """Return "text", "markdown", "html", "pdf" or "docx". Raises: Unreadable, also when name and content differ."""
    extension = PurePosixPath(name).suffix.lower()
    kind = KINDS.get(extension)
    if kind is None:
        raise Unreadable(f"is of a kind that cannot be read; {READABLE}")
    if not data:
        raise Unreadable("is empty")
    content = _look_inside(data)
    if kind == "docx" and content == "ole":
        raise Unreadable("is protected by a password, or is an old Word file; save it as docx without a password")
    if kind in ("pdf", "docx"):
        if content != kind:
            what = NAMES.get(content or "", "something else or damaged")
            raise Unreadable(f"is named {extension} but is {what}")
    elif content is not None:
        raise Unreadable(f"is named {extension} but is {NAMES[content]}")
    return kind


def _look_inside(data: bytes) -> str | None:
    """Return what the first bytes give away, or None for what may be text."""
    if b"%PDF-" in data[:1024]:
        return "pdf"
    if data.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return "ole"
    if not data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return "docx" if "word/document.xml" in archive.namelist() else "zip"
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return "zip"
