"""How the API writes an answer: compact ASCII JSON, so that no proxy, terminal or line splitter can garble it."""

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja.renderers import BaseRenderer
from ninja.responses import NinjaJSONEncoder

CONTENT_TYPE = "application/json"


def json_answer(body: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> HttpResponse:
    """Answer with JSON that no cache keeps."""
    response = HttpResponse(write_json(body), status=status, content_type=CONTENT_TYPE, headers=headers)
    response.setdefault("Cache-Control", "no-store")
    return response


def write_json(body: Any) -> str:
    """Write compact ASCII JSON."""
    return json.dumps(body, cls=NinjaJSONEncoder, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


class AsciiJsonRenderer(BaseRenderer):
    """Render what a view returns as plain data in the same way."""

    media_type = CONTENT_TYPE

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> str:
        """Write the body."""
        return write_json(data)
