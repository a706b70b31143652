"""Holding a run from the operators' desk, with the reason on record. Only an admin of the tenant may."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from runs.admin.desk import actor_in, status_text
from runs.errors import OutliveError
from runs.holding import hold_run
from runs.models import Run


class HoldForm(forms.Form):
    """Why a run is held or released. is_held: what is asked for, as the person saw it."""

    note = forms.CharField(label=gettext_lazy("Note"), max_length=1000, widget=forms.Textarea(attrs={"rows": 3}))
    is_held = forms.BooleanField(required=False, widget=forms.HiddenInput)


def hold_view(request: HttpRequest, run: Run, each_context: dict[str, Any]) -> HttpResponse:
    """Ask why, then hold the run, or release one that is held."""
    form = HoldForm(request.POST or None, initial={"is_held": not run.is_held})
    if request.method == "POST" and form.is_valid() and _hold(request, run, form.cleaned_data):
        return HttpResponseRedirect(reverse("admin:runs_run_change", args=[run.pk]))
    title = _("Release a run") if run.is_held else _("Hold a run")
    context = {**each_context, "run": run, "form": form, "title": title, "opts": run._meta,
               "status": status_text(run.status)}  # fmt: skip
    return render(request, "admin/runs/run/hold.html", context)


def _hold(request: HttpRequest, run: Run, said: dict[str, Any]) -> bool:
    try:
        hold_run(actor=actor_in(request, run.tenant), run_id=run.pk, is_held=said["is_held"], note=said["note"])
    except OutliveError as refusal:
        messages.error(request, refusal.message)
        return False
    if said["is_held"]:
        messages.success(request, _("The run is held: nothing of it is deleted until it is released."))
    else:
        messages.success(request, _("The run is released: it is kept as long as any other."))
    return True
