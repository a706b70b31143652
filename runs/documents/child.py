"""Read one file in a process of its own: name in argv, bytes on stdin, one JSON object on stdout.

    python -m runs.documents.child report.pdf < report.pdf
    {"passages": [["page 1", "..."], ...]}   or   {"error": "is protected by a password"}

The limits below are set before the first byte of the file is read, so a hostile file costs seconds and one process,
never the server. The parent (runs.documents.extract) bounds the time again.
"""

import importlib
import json
import resource
import sys
from collections.abc import Callable, Iterable, Iterator

from runs.documents.failures import Unreadable
from runs.documents.kinds import find_kind
from runs.documents.passages import Block, Piece, make_passages

READERS = {
    "text": ("runs.documents.readers.text", "read_text"),
    "markdown": ("runs.documents.readers.text", "read_markdown"),
    "html": ("runs.documents.readers.html", "read_html"),
    "pdf": ("runs.documents.readers.pdf", "read_pdf"),
    "docx": ("runs.documents.readers.docx", "read_docx"),
}
MAX_CHARS = 2_000_000
CPU_SECONDS = 25
MEMORY_BYTES = 1536 << 20
OUTPUT_BYTES = 32 << 20
TOO_HEAVY = "needs more memory to read than is allowed"


def read_document(name: str, data: bytes) -> list[Piece]:
    """Return the passages of a file. Raises: Unreadable."""
    kind = find_kind(name, data)
    module, function = READERS[kind]
    # Only the library of this kind is loaded: all of them would cost half a second for each file.
    read: Callable[[bytes], Iterable[Block]] = getattr(importlib.import_module(module), function)
    try:
        pieces = make_passages(_bounded(read(data)))
    except RecursionError:
        raise Unreadable("is nested too deeply") from None
    except MemoryError:
        raise Unreadable(TOO_HEAVY) from None
    if not any(character.isalnum() for piece in pieces for character in piece.text):
        raise Unreadable("holds no text (pictures of text, as in a scan, are not read)")
    return pieces


def _bounded(blocks: Iterable[Block]) -> Iterator[Block]:
    count = 0
    for block in blocks:
        count += len(block.text)
        if count > MAX_CHARS:
            raise Unreadable(f"holds more than {MAX_CHARS:,} characters")
        yield block


def limit_this_process() -> None:
    """Bound memory, processor time and output. A limit that the system does not know is left out."""
    for what, value in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_FSIZE, OUTPUT_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(what, (most, most))
        except (ValueError, OSError):  # macOS refuses RLIMIT_AS
            continue


def main() -> None:
    """Read stdin, write the answer. Any ordinary failure of a library is an unreadable file, not a crash."""
    limit_this_process()
    answer: dict[str, object]
    try:
        pieces = read_document(sys.argv[1], sys.stdin.buffer.read())
        answer = {"passages": [[piece.place, piece.text] for piece in pieces]}
    except Unreadable as error:
        answer = {"error": error.reason}
    except MemoryError:
        answer = {"error": TOO_HEAVY}
    except Exception as error:  # a process edge: libraries meet files that their authors never saw
        answer = {"error": f"could not be read ({type(error).__name__}: {error})"[:280]}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
