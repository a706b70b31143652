"""Ending a run from the operators' desk without waiting for its worker: what it means, whether it is meant, and why."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from runs import services
from runs.admin.desk import actor_in, status_text
from runs.errors import OutliveError
from runs.models import Run
from runs.states import ENDED, Status


class ForceStopForm(forms.Form):
    """Why the waiting is ended, and that its price is known."""

    note = forms.CharField(label=gettext_lazy("Note"), max_length=1000, widget=forms.Textarea(attrs={"rows": 3}))
    is_meant = forms.BooleanField(
        label=gettext_lazy("What has no proof by now may become unknown, and then needs a verdict")
    )


def force_stop_view(request: HttpRequest, run: Run, each_context: dict[str, Any]) -> HttpResponse:
    """Ask, then end the run now."""
    form = ForceStopForm(request.POST or None)
    if request.method == "POST" and form.is_valid() and _force(request, run, form.cleaned_data["note"]):
        return HttpResponseRedirect(reverse("admin:runs_run_change", args=[run.pk]))
    context = {**each_context, "run": run, "form": form, "title": _("Force a run to stop"), "opts": run._meta,
               "status": status_text(run.status), "open_ops": run.open_ops}  # fmt: skip
    return render(request, "admin/runs/run/force_stop.html", context)


def _force(request: HttpRequest, run: Run, note: str) -> bool:
    was_ended = run.status in ENDED
    try:
        receipt = services.force_stop_run(actor=actor_in(request, run.tenant), run_id=run.pk, note=note)
    except OutliveError as refusal:
        messages.error(request, refusal.message)
        return False
    if receipt.too_late or was_ended:
        messages.warning(request, _("It had ended before; nothing was changed."))
    elif receipt.run.status == Status.NEEDS_RECONCILIATION:
        messages.warning(request, _("It has ended. What has no proof is unknown, and is in the queue of verdicts."))
    else:
        messages.success(request, _("It has ended, and the outcome of everything that it did is known."))
    return True
