"""Retrying from the run's page: the form, what it offers to do again, and its post. Works without JavaScript."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from runs import services
from runs.access import Actor
from runs.decisions.lineage import base_of, is_committed
from runs.errors import Busy, ConversationBusy, IdempotencyMismatch, InvalidInput, NotRetriable, StaleVersion
from runs.ids import BadId, parse_id, text_id
from runs.models import Operation, Run
from runs.pages import present
from runs.pages.visits import page, read_id
from runs.states import SETTLED

MAX_OFFERED = 50


def retry_form(actor: Actor, run: Run) -> dict[str, Any] | None:
    """Give what the form shows; None while there is nothing to retry, or for somebody who may not."""
    if run.status not in SETTLED or not actor.may("run.retry", run):
        return None
    may_redo = actor.may("operation.redo", run)
    return {
        # One retry of each attempt: a double click, Back or a second tab brings back the same one.
        "key": f"page-{run.stream_id.hex}",
        "version": run.version,
        "operations": [_offer(o) for o in committed_operations(run)] if may_redo else [],
    }


def committed_operations(run: Run) -> list[Operation]:
    """Return what took effect, oldest first; of what was done again only the newest time."""
    newest: dict[str, Operation] = {}
    for operation in Operation.objects.filter(run=run).order_by("created_at")[:1000]:
        row = {"state": operation.state, "is_process": operation.is_process, "receipt": operation.receipt}
        if is_committed(row):
            newest[base_of(operation.key)] = operation
    return list(newest.values())[:MAX_OFFERED]


def _offer(operation: Operation) -> dict[str, Any]:
    receipt = operation.receipt if isinstance(operation.receipt, dict) else {}
    about = [present.as_text(receipt.get("external_id")), present.one_line(receipt.get("value"))]
    return {
        "id": text_id("op", operation.pk),
        "tool": operation.tool,
        "about": next(filter(None, about), ""),
    }


@require_POST
@page
def retry(request: HttpRequest, actor: Actor, run_id: str) -> HttpResponse:
    """Try the run again; what cannot be done now is said on its page."""
    try:
        services.retry_run(
            actor=actor,
            run_id=read_id("run", run_id),
            reason=request.POST.get("reason", ""),
            reuse=request.POST.get("reuse", "finished"),
            redo=[parse_id("op", text) for text in request.POST.getlist("redo")],
            version=_version(request.POST.get("version", "")),
            idempotency_key=request.POST.get("key", "")[:200].replace("\x00", "") or None,
        )
    except (NotRetriable, ConversationBusy, StaleVersion, InvalidInput, Busy) as refusal:
        messages.warning(request, refusal.message)
    except IdempotencyMismatch:
        messages.warning(request, _("This attempt was retried already, with other choices."))
    except BadId:
        messages.warning(request, _("This operation is not known any more. Look at the run again, then decide."))
    answer = HttpResponseRedirect(reverse("pages:run", args=[run_id]))
    answer.status_code = 303
    return answer


def _version(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
