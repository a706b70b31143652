"""The sample documents: a small fictional company, so that a newcomer has something to ask about.

The texts lie beside this module; the Word document and the PDF are made from their text at load time, always the same
bytes, because a document is known by its content.
"""

from dataclasses import dataclass
from pathlib import Path

from runs.documents.sample.make import make_docx, make_pdf

FOLDER = Path(__file__).parent
AS_IT_IS = {
    "incident-2026-03-14-outage.md": "text/markdown",
    "incident-2025-11-02-double-invoices.md": "text/markdown",
    "laptop-policy.txt": "text/plain",
    "stop-button-handbook.html": "text/html",
    "值班手册.md": "text/markdown",
}
DOCX_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@dataclass(frozen=True, slots=True)
class SampleFile:
    """A file as a person would upload it."""

    name: str
    content_type: str
    content: bytes


def sample_files() -> list[SampleFile]:
    """Return the sample files, by name."""
    files = [SampleFile(name, kind, (FOLDER / name).read_bytes()) for name, kind in AS_IT_IS.items()]
    billing = (FOLDER / "billing-rules.source").read_text(encoding="utf-8")
    travel = (FOLDER / "travel-expenses.source").read_text(encoding="utf-8")
    files.append(SampleFile("billing-rules.docx", DOCX_TYPE, make_docx(billing)))
    files.append(SampleFile("travel-expenses.pdf", "application/pdf", make_pdf(travel)))
    return sorted(files, key=lambda file: file.name)
