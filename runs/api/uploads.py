"""Bounds on what a request may send, judged as early as its parts are known and before anything is stored."""

from collections.abc import Sequence
from typing import Any

from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest
from django.utils.translation import gettext as _

from runs.api.problems import BadRequest, TooLarge
from runs.conf import limits

MAX_FILES_AT_ONCE = 50
JSON_BYTES = 1 << 20  # the same as DATA_UPLOAD_MAX_MEMORY_SIZE, said before the body is read


def max_request_bytes(request: HttpRequest) -> int:
    """Say how many bytes this request may have: JSON little, a multipart upload a few whole documents."""
    if request.content_type == "multipart/form-data":
        return 4 * limits().max_upload_bytes
    return JSON_BYTES


def guard_upload(request: HttpRequest) -> None:
    """Refuse a request whose own Content-Length says that it is too large, and bound the files in it.

    Raises: TooLarge, BadRequest.
    """
    stated = request.META.get("CONTENT_LENGTH") or "0"
    if not (stated.isascii() and stated.isdigit()):
        raise BadRequest(_("Content-Length is a number of bytes."), param="Content-Length")
    allowed = max_request_bytes(request)
    if int(stated) > allowed:
        raise TooLarge(
            _("This request has %(stated)s bytes; %(allowed)s are taken at most. Nothing was stored.")
            % {"stated": stated, "allowed": allowed},
            param="Content-Length",
        )
    if request.content_type == "multipart/form-data":
        keepers = list(request.upload_handlers)
        request.upload_handlers.insert(0, FileBound(request, keepers))


class FileBound(FileUploadHandler):
    """Stop a multipart body at the first file that is too large, whatever its Content-Length claimed."""

    def __init__(self, request: HttpRequest, keepers: Sequence[FileUploadHandler]) -> None:
        super().__init__(request)
        self.keepers = keepers

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        """Start counting a file."""
        super().new_file(*args, **kwargs)
        self.size_bytes = 0

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        """Count, and hand the bytes on to the handlers that keep them.

        Raises: TooLarge, after the file that was under way was thrown away; Django does so with the others.
        """
        self.size_bytes += len(raw_data)
        allowed = limits().max_upload_bytes
        if self.size_bytes > allowed:
            for keeper in self.keepers:
                keeper.upload_interrupted()
            raise TooLarge(
                _("The file %(name)s is larger than %(allowed)s bytes. Nothing was stored.")
                % {"name": (self.file_name or "")[:100], "allowed": allowed},
                param=self.field_name,
            )
        return raw_data

    def file_complete(self, file_size: int) -> None:
        """Keep nothing: the next handler makes the file."""
        return None
