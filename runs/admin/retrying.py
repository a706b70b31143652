"""Retrying a run from the operators' desk: the same command as on its page, with what would be done again."""

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
from runs.ids import new_id
from runs.models import Run
from runs.pages.retrying import committed_operations
from runs.states import Reuse


class RetryForm(forms.Form):
    """Why an operator retries somebody's run, and what of it is reused."""

    reason = forms.CharField(label=gettext_lazy("Why"), max_length=1000, widget=forms.Textarea(attrs={"rows": 2}))
    reuse = forms.ChoiceField(
        label=gettext_lazy("Steps"),
        choices=[
            (Reuse.FINISHED.value, gettext_lazy("Go on from the first step that did not finish")),
            (Reuse.NOTHING.value, gettext_lazy("Do every step anew")),
        ],
        widget=forms.RadioSelect,
        initial=Reuse.FINISHED.value,
    )
    redo = forms.TypedMultipleChoiceField(
        label=gettext_lazy("Do again, although it took effect"), required=False, widget=forms.CheckboxSelectMultiple
    )
    version = forms.IntegerField(widget=forms.HiddenInput)
    key = forms.CharField(max_length=60, widget=forms.HiddenInput)


def retry_view(request: HttpRequest, run: Run, each_context: dict[str, Any]) -> HttpResponse:
    """Ask why and what, then queue the run as a new attempt."""
    form = RetryForm(request.POST or None, initial={"version": run.version, "key": f"desk-{new_id().hex}"})
    offered = {str(o.pk): o for o in committed_operations(run)}
    redo: Any = form.fields["redo"]
    redo.choices = [(name, f"{o.tool} {o.key}") for name, o in offered.items()]
    if not offered:
        del form.fields["redo"]
    if request.method == "POST" and form.is_valid() and _retry(request, run, form):
        return HttpResponseRedirect(reverse("admin:runs_run_change", args=[run.pk]))
    context = {**each_context, "run": run, "form": form, "title": _("Retry a run"), "opts": run._meta,
               "status": status_text(run.status)}  # fmt: skip
    return render(request, "admin/runs/run/retry.html", context)


def _retry(request: HttpRequest, run: Run, form: RetryForm) -> bool:
    said = form.cleaned_data
    chosen = set(said.get("redo", []))
    try:
        made = services.retry_run(
            actor=actor_in(request, run.tenant), run_id=run.pk, reason=said["reason"], reuse=said["reuse"],
            redo=[o.pk for o in committed_operations(run) if str(o.pk) in chosen], version=said["version"],
            idempotency_key=said["key"],
        )  # fmt: skip
    except OutliveError as refusal:
        messages.error(request, refusal.message)
        return False
    messages.success(request, _("Queued as attempt %(n)s.") % {"n": made.attempt.number})
    return True
