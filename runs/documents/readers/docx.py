"""Read a Word document: paragraphs and tables in their order, with the heading that they stand under."""

import io
import zipfile
from collections.abc import Iterator

from docx import Document
from docx.opc.exceptions import OpcError
from docx.table import Table

from runs.documents.failures import Unreadable
from runs.documents.passages import Block

MAX_UNPACKED_BYTES = 100 << 20
MAX_PARTS = 2000


def read_docx(data: bytes) -> Iterator[Block]:
    """Yield the paragraphs and table rows. Raises: Unreadable (damaged, or it unpacks to too much)."""
    _refuse_bombs(data)
    try:
        document = Document(io.BytesIO(data))
        place = ""
        for item in document.iter_inner_content():
            if isinstance(item, Table):
                yield from _rows(item, place)
                continue
            text = item.text.strip()
            style = (item.style.name or "") if item.style is not None else ""
            if text and style.startswith(("Heading", "Title")):
                place = text
            elif text:
                yield Block(text, place)
    except (OpcError, SyntaxError, zipfile.BadZipFile, KeyError, ValueError, AttributeError, OSError) as error:
        raise Unreadable(f"is a damaged Word document ({type(error).__name__}: {error})"[:200]) from None


def _rows(table: Table, place: str) -> Iterator[Block]:
    for row in table.rows:
        cells: list[str] = []
        for cell in row.cells:
            text = " ".join(cell.text.split())
            if text and (not cells or cells[-1] != text):  # a merged cell comes once for each column
                cells.append(text)
        if cells:
            yield Block(" | ".join(cells), place)


def _refuse_bombs(data: bytes) -> None:
    """Look at what the archive says it unpacks to, before anything is unpacked; the memory limit stands behind."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        raise Unreadable("is a damaged Word document (the archive cannot be opened)") from None
    if len(parts) > MAX_PARTS:
        raise Unreadable(f"holds {len(parts)} parts; at most {MAX_PARTS} are read")
    if sum(part.file_size for part in parts) > MAX_UNPACKED_BYTES:
        raise Unreadable(f"unpacks to more than {MAX_UNPACKED_BYTES >> 20} MB")
