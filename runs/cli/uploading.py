"""Sending files of this machine as documents."""

import mimetypes
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from runs.cli.api import ApiClient
from runs.cli.plain_text import safe_line
from runs.cli.problems import Usage


def upload(client: ApiClient, names: list[str]) -> list[dict[str, Any]]:
    """Upload the files in one request and return the documents.

    Raises: Usage naming the file that cannot be read; then nothing was sent.
    """
    with ExitStack() as opened:
        parts = []
        for name in names:
            path = Path(name)
            try:
                if not path.is_file():
                    raise Usage(f"{safe_line(name)}: is no file. Nothing was sent.")
                file = opened.enter_context(path.open("rb"))
            except OSError as error:
                raise Usage(f"{safe_line(name)}: {error.strerror or error}. Nothing was sent.") from None
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            parts.append(("file", (path.name, file, kind)))
        documents: list[dict[str, Any]] = client.call(
            "POST", "/documents", files=parts,
            lost="The files may have been stored. Uploading the same file again makes no second document.",
        ).body["data"]  # fmt: skip
    return documents


def document_line(document: dict[str, Any]) -> str:
    """Write a document on one line."""
    error = f"  cannot be read: {safe_line(document['error'])}" if document["error"] else ""
    return f"{document['id']}  {document['bytes']:>9}  {safe_line(document['name'], 80)}{error}"
