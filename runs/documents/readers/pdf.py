"""Read the text of a PDF, page by page."""

import io
import logging
import re
from collections.abc import Iterator

from pypdf import PdfReader
from pypdf.errors import PyPdfError

from runs.documents.failures import Unreadable
from runs.documents.passages import Block

MAX_PAGES = 500


def read_pdf(data: bytes) -> Iterator[Block]:
    """Yield the paragraphs of each page. Raises: Unreadable (damaged, password, too many pages)."""
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it comments on every flaw of a file
    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("is protected by a password")
        count = len(reader.pages)
    except Unreadable:
        raise
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, OSError) as error:
        raise Unreadable(f"is a damaged PDF ({_short(error)})") from None
    if count > MAX_PAGES:
        raise Unreadable(f"has {count} pages; at most {MAX_PAGES} are read")
    for number in range(count):
        try:
            text = reader.pages[number].extract_text()
        except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, OSError) as error:
            raise Unreadable(f"is damaged on page {number + 1} ({_short(error)})") from None
        for part in re.split(r"\n\s*\n", text):
            if part.strip():
                yield Block(part, f"page {number + 1}")


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:120]
