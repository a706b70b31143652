"""Undoing effects at the operators' desk: ask for it with a reason, and decide what nobody knows."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from runs.admin.desk import ReadOnly, actor_in, as_json
from runs.compensating import compensate_operation, settle_compensation
from runs.errors import OutliveError
from runs.inputs import MAX_NOTE
from runs.models import Compensation, Operation
from runs.states import OperationState


class WishForm(forms.Form):
    """Why an effect is to be undone."""

    note = forms.CharField(
        label=gettext_lazy("Why?"), max_length=MAX_NOTE, widget=forms.Textarea(attrs={"rows": 4}),
        help_text=gettext_lazy("The note stays with the operation for good."),
    )  # fmt: skip
    version = forms.IntegerField(widget=forms.HiddenInput)


class WordForm(WishForm):
    """What an operator knows of a compensation that nobody has an answer of."""

    field_order = ("outcome", "note", "version")
    outcome = forms.ChoiceField(
        label=gettext_lazy("Verdict"),
        choices=[("happened", gettext_lazy("It happened")), ("not_happened", gettext_lazy("It did not happen"))],
        widget=forms.RadioSelect,
    )


@admin.register(Compensation)
class CompensationAdmin(ReadOnly):
    """Tries to undo an effect. Each is an action of its own that can fail."""

    tenant_path = "operation__run__tenant"
    change_form_template = "admin/runs/compensation/change_form.html"
    list_display = ("key", "state", "requested_by", "requested_at", "finished_at")
    list_filter = ("state",)
    list_select_related = ("requested_by",)
    show_full_result_count = False
    readonly_fields = ("receipt_json",)
    fields = ("operation", "key", "state", "version", "requested_by", "requested_at", "note", "dispatched_at",
              "horizon_at", "finished_at", "receipt_json", "settled_by", "settle_note")  # fmt: skip

    @admin.display(description=gettext_lazy("Receipt"))
    def receipt_json(self, compensation: Compensation) -> SafeString:
        """Show what came back."""
        return as_json(compensation.receipt)

    def get_urls(self) -> list[Any]:
        """Add the pages that ask for a compensation and that decide one."""
        ask, settle = (self.admin_site.admin_view(view) for view in (self.ask_view, self.settle_view))
        return [
            path("of/<uuid:operation_id>/", ask, name="runs_compensation_ask"),
            path("<uuid:compensation_id>/settle/", settle, name="runs_compensation_settle"),
            *super().get_urls(),
        ]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the compensation, with the way to a verdict while nobody knows its outcome."""
        found = self.get_object(request, object_id)
        context = {"can_settle": found is not None and found.state == OperationState.UNKNOWN}
        return super().change_view(request, object_id, form_url, (extra_context or {}) | context)

    def ask_view(self, request: HttpRequest, operation_id: UUID) -> HttpResponse:
        """Ask why, then have a supervisor undo the operation."""
        operation = get_object_or_404(Operation.objects.select_related("run__tenant"), pk=operation_id)
        actor = actor_in(request, operation.run.tenant)
        form = WishForm(request.POST or None, initial={"version": operation.version})

        def ask(said: dict[str, Any]) -> Compensation:
            return compensate_operation(
                actor=actor, operation_id=operation_id, version=said["version"], note=said["note"]
            )

        return self._decide(request, form, operation, ask, title=_("Undo an operation"), settles=False)

    def settle_view(self, request: HttpRequest, compensation_id: UUID) -> HttpResponse:
        """Take an operator's word for a compensation that nobody has an answer of."""
        visible = self.get_queryset(request).select_related("operation__run__tenant")
        found = get_object_or_404(visible, pk=compensation_id)
        actor = actor_in(request, found.operation.run.tenant)
        form = WordForm(request.POST or None, initial={"version": found.version})

        def settle(said: dict[str, Any]) -> Compensation:
            return settle_compensation(
                actor=actor, compensation_id=compensation_id, version=said["version"], outcome=said["outcome"],
                note=said["note"],
            )  # fmt: skip

        return self._decide(request, form, found.operation, settle, title=_("Settle a compensation"), settles=True)

    def _decide(
        self,
        request: HttpRequest,
        form: forms.Form,
        operation: Operation,
        do: Callable[[dict[str, Any]], Compensation],
        *,
        title: str,
        settles: bool,
    ) -> HttpResponse:
        if request.method == "POST" and form.is_valid():
            try:
                made = do(form.cleaned_data)
            except OutliveError as refusal:
                form.add_error(None, refusal.message)
            else:
                messages.success(request, _("It is on record: %(key)s.") % {"key": made.key})
                return HttpResponseRedirect(reverse("admin:runs_compensation_change", args=[made.pk]))
        context = {
            **self.admin_site.each_context(request), "title": title, "opts": self.model._meta, "operation": operation,
            "arguments": as_json(operation.arguments), "receipt": as_json(operation.receipt), "form": form,
            "settles": settles,
        }  # fmt: skip
        return render(request, "admin/runs/compensation/decide.html", context)
