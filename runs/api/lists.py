"""Lists in pages: a cursor names the last row that was given, so rows that are added meanwhile shift nothing."""

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _

from runs.api.bodies import check_text
from runs.api.problems import BadRequest

MAX_LIMIT = 100
DEFAULT_LIMIT = 20


@dataclass(frozen=True, slots=True)
class Order:
    """By a time column, then by id (times can be equal)."""

    field: str
    is_newest_first: bool


@dataclass(frozen=True, slots=True)
class Page[R]:
    """Some rows, and the cursor of the next page (None: this was the last)."""

    rows: list[R]
    next_cursor: str | None

    def body(self, write: Callable[[R], dict[str, Any]]) -> dict[str, Any]:
        """Write the list object of API.md section 1."""
        return {
            "object": "list",
            "data": [write(row) for row in self.rows],
            "has_more": self.next_cursor is not None,
            "next_cursor": self.next_cursor,
        }


def read_page[R: Model](rows: QuerySet[R], request: HttpRequest, order: Order) -> Page[R]:
    """Read the page that `limit` and `cursor` of the query ask for.

    Raises: BadRequest for a limit outside 1..100 or a cursor that is none of ours.
    """
    limit = _read_limit(request.GET.get("limit"))
    sign = "-" if order.is_newest_first else ""
    ordered = rows.order_by(f"{sign}{order.field}", f"{sign}id")
    cursor = request.GET.get("cursor")
    if cursor is not None:
        ordered = ordered.filter(_beyond(cursor, order))
    found = list(ordered[: limit + 1])
    if len(found) <= limit:
        return Page(found, None)
    last = found[limit - 1]
    return Page(found[:limit], write_cursor(getattr(last, order.field), last.pk))


def write_cursor(at: datetime, row_id: UUID) -> str:
    """Write the cursor of a row; its form is nobody's business."""
    return base64.urlsafe_b64encode(json.dumps([at.isoformat(), row_id.hex]).encode()).decode().rstrip("=")


def refuse_unknown_parameters(request: HttpRequest, known: Iterable[str]) -> None:
    """Refuse a query parameter that nobody reads: a mistyped filter must not answer with everything.

    Raises: BadRequest naming it, or naming one whose text cannot be searched for.
    """
    allowed = {*known, "limit", "cursor"}
    for name, value in request.GET.items():
        if name not in allowed:
            raise BadRequest(_("There is no such parameter."), param=name[:100], code="unknown_parameter")
        check_text(str(value), name)


def _read_limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= MAX_LIMIT):
        raise BadRequest(_("The limit is a whole number from 1 to 100."), param="limit")
    return int(text)


def _beyond(cursor: str, order: Order) -> Q:
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        at_text, hexes = json.loads(raw)
        at, row_id = datetime.fromisoformat(at_text), UUID(hexes)
        # Ours are in UTC. In another zone the edges of the calendar are no time for PostgreSQL.
        is_ours = at.utcoffset() == timedelta(0)
    except (binascii.Error, ValueError, TypeError, AttributeError, RecursionError):
        is_ours = False
    if not is_ours:
        raise BadRequest(_("This is no cursor of this list."), param="cursor", code="invalid_cursor")
    way = "lt" if order.is_newest_first else "gt"
    # The first condition is implied by the second; with it PostgreSQL can use the index on the time.
    return Q(**{f"{order.field}__{way}e": at}) & (
        Q(**{f"{order.field}__{way}": at}) | Q(**{order.field: at, f"id__{way}": row_id})
    )
