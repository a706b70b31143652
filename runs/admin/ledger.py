"""The operation ledger at the operators' desk: what was sent, what is known, and the verdict on what is not.

A verdict is a preview first, then a confirmation; both carry the version that the operator read, so that two
operators cannot overwrite each other. Only services.settle_operation decides. A look-up only brings evidence, so it
may be asked for in bulk; a verdict may not.
"""

from collections import Counter
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from runs import services
from runs.admin.desk import ReadOnly, ReadOnlyLines, actor_in, as_json, status_text
from runs.compensating import can_compensate
from runs.errors import NotYet, OutliveError, StaleVersion
from runs.ids import text_id
from runs.models import Compensation, Evidence, Operation, Run
from runs.states import OperationState, Status


class EvidenceLines(ReadOnlyLines):
    """What was learnt about an operation."""

    model = Evidence
    fields = ("at", "kind", "happened", "fence", "detail", "by")
    show_change_link = False


class CompensationLines(ReadOnlyLines):
    """What was asked for to undo an operation."""

    model = Compensation
    fields = ("requested_at", "requested_by", "note", "state", "finished_at")


class NeedsVerdict(admin.SimpleListFilter):
    """The queue: what nobody knows yet, and what was contradicted later."""

    title = gettext_lazy("verdict")
    parameter_name = "verdict"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Offer one choice."""
        return [("open", _("needs a verdict"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep what is unknown or contradicted."""
        if self.value() != "open":
            return queryset
        return queryset.filter(Q(state=OperationState.UNKNOWN) | Q(contradicted_at__isnull=False))


class VerdictForm(forms.Form):
    """The operator's word, and how they know."""

    outcome = forms.ChoiceField(
        label=gettext_lazy("Verdict"),
        choices=[("happened", gettext_lazy("It happened")), ("not_happened", gettext_lazy("It did not happen"))],
        widget=forms.RadioSelect,
    )
    note = forms.CharField(
        label=gettext_lazy("How do you know?"), max_length=4000, widget=forms.Textarea(attrs={"rows": 4}),
        help_text=gettext_lazy("The note stays with the operation for good."),
    )  # fmt: skip
    override = forms.BooleanField(
        label=gettext_lazy("I know that nothing can arrive any more, although nobody saw the sender's end"),
        required=False,
    )
    version = forms.IntegerField(widget=forms.HiddenInput)


@admin.register(Operation)
class OperationAdmin(ReadOnly):
    """Operations, the unsettled ones by age. Settling goes through services.settle_operation."""

    tenant_path = "run__tenant"
    change_form_template = "admin/runs/operation/change_form.html"
    list_display = ("tool", "state", "key", "run", "dispatched_at", "look_ups", "settled_by")
    list_filter = (NeedsVerdict, "state", "tool")
    search_fields = ("key", "tool", "run__title")
    list_select_related = ("run", "settled_by")
    show_full_result_count = False
    inlines = (EvidenceLines, CompensationLines)
    actions = ("look_up",)
    readonly_fields = ("outside_id", "arguments_json", "receipt_json")
    fieldsets = (
        (gettext_lazy("What we sent"), {"fields": ("outside_id", "key", "tool", "effect", "run", "step",
                                                   "arguments_json", "digest", "dispatched_at", "worker", "fence")}),
        (gettext_lazy("What we know"), {"fields": ("state", "version", "receipt_json", "is_ambiguous", "gave_up",
                                                   "send_by", "horizon_at", "holder_gone_at", "can_look_up",
                                                   "look_ups", "next_look_up_at", "contradicted_at")}),
        (gettext_lazy("Verdict"), {"fields": ("settled_at", "settled_by", "settle_note")}),
    )  # fmt: skip

    @admin.display(description=gettext_lazy("Id"))
    def outside_id(self, operation: Operation) -> str:
        """Show the id as the API writes it."""
        return text_id("op", operation.pk)

    @admin.display(description=gettext_lazy("Arguments"))
    def arguments_json(self, operation: Operation) -> SafeString:
        """Show what was sent."""
        return as_json(operation.arguments)

    @admin.display(description=gettext_lazy("Receipt"))
    def receipt_json(self, operation: Operation) -> SafeString:
        """Show what came back."""
        return as_json(operation.receipt)

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Show the newest first, and in the queue of verdicts what has waited longest."""
        return ("created_at",) if request.GET.get(NeedsVerdict.parameter_name) == "open" else ("-created_at",)

    def get_urls(self) -> list[Any]:
        """Add the page that settles an operation."""
        settle = self.admin_site.admin_view(self.settle_view)
        look_up = self.admin_site.admin_view(self.look_up_view)
        return [
            path("<uuid:operation_id>/settle/", settle, name="runs_operation_settle"),
            path("<uuid:operation_id>/look-up/", look_up, name="runs_operation_look_up"),
            *super().get_urls(),
        ]

    @admin.action(description=gettext_lazy("Look up the selected operations at their targets"))
    def look_up(self, request: HttpRequest, queryset: QuerySet[Operation]) -> None:
        """Have every selected operation that can be looked up asked for; say why the others are not."""
        asked, refused = 0, Counter[str]()
        for operation in queryset.select_related("run__tenant"):
            try:
                services.request_look_up(actor=actor_in(request, operation.run.tenant), operation_id=operation.pk)
                asked += 1
            except OutliveError as refusal:
                refused[refusal.message] += 1
        text = ngettext(
            "%(n)s operation is being looked up. What the target says is added to its evidence.",
            "%(n)s operations are being looked up. What the targets say is added to their evidence.",
            asked,
        )
        if asked:
            messages.success(request, text % {"n": asked})
        for reason, count in refused.items():
            messages.warning(request, _("Left as they are: %(n)s. %(why)s") % {"n": count, "why": reason})

    def look_up_view(self, request: HttpRequest, operation_id: UUID) -> HttpResponse:
        """Do the list's action for one operation."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        found = self.get_queryset(request).filter(pk=operation_id)
        if not found:
            raise Http404
        self.look_up(request, found)
        return HttpResponseRedirect(reverse("admin:runs_operation_settle", args=[operation_id]))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the operation, with the way to its verdict while it needs one."""
        operation = self.get_object(request, object_id)
        context = {
            "can_settle": operation is not None and needs_verdict(operation),
            "can_compensate": operation is not None and can_compensate(operation),
        }
        return super().change_view(request, object_id, form_url, (extra_context or {}) | context)

    def settle_view(self, request: HttpRequest, operation_id: UUID) -> HttpResponse:
        """Show the form, then what would change, then settle."""
        operation = self.get_queryset(request).select_related("run", "run__tenant").filter(pk=operation_id).first()
        if operation is None:
            raise Http404
        back = HttpResponseRedirect(reverse("admin:runs_operation_change", args=[operation.pk]))
        if not needs_verdict(operation):
            messages.info(request, _("This operation is settled already."))
            return back
        form = VerdictForm(request.POST or None, initial={"version": operation.version})
        is_good = request.method == "POST" and form.is_valid()
        if is_good and "confirm" in request.POST and self._settle(request, operation, form):
            return back
        context = {
            **self.admin_site.each_context(request),
            "title": _("Settle an operation"),
            "opts": self.model._meta,
            "operation": operation,
            "evidence": [(one, as_json(one.detail)) for one in operation.evidence.select_related("by")[:50]],
            "arguments": as_json(operation.arguments),
            "form": form,
            "preview": preview(operation, form.cleaned_data["outcome"]) if is_good else [],
        }
        return render(request, "admin/runs/operation/settle.html", context)

    def _settle(self, request: HttpRequest, operation: Operation, form: VerdictForm) -> bool:
        said = form.cleaned_data
        try:
            settled = services.settle_operation(
                actor=actor_in(request, operation.run.tenant), operation_id=operation.pk, version=said["version"],
                outcome=said["outcome"], note=said["note"], override=said["override"],
            )  # fmt: skip
        except StaleVersion as stale:
            messages.error(request, stale.message)
            return True  # back to the operation, which shows what the other one did
        except (NotYet, OutliveError) as refusal:
            form.add_error(None, refusal.message)
            return False
        text = _("Settled: %(state)s. The run is now: %(status)s.")
        messages.success(request, text % {"state": settled.state, "status": status_text(settled.run.status)})
        return True


@admin.register(Evidence)
class EvidenceAdmin(ReadOnly):
    """What was learnt about operations. Rows are only added."""

    tenant_path = "operation__run__tenant"
    list_display = ("at", "kind", "happened", "operation", "fence", "by")
    list_filter = ("kind", "happened")
    list_select_related = ("operation", "by")
    show_full_result_count = False


def needs_verdict(operation: Operation) -> bool:
    """Say whether a person has to decide: nobody knows, or evidence speaks against what was decided."""
    return operation.state == OperationState.UNKNOWN or operation.contradicted_at is not None


def preview(operation: Operation, outcome: str) -> list[str]:
    """Say exactly what a verdict would change."""
    run = operation.run
    state = OperationState.CONFIRMED if outcome == "happened" else OperationState.REFUTED
    lines = [
        _("Operation: %(before)s becomes %(after)s, for good.") % {"before": operation.state, "after": state.value},
        _("Your name and your note are stored with it, and in the audit."),
    ]
    others = run.unknown_ops - 1
    if run.status != Status.NEEDS_RECONCILIATION:
        lines.append(_("Run: it is still %(status)s, and goes its own way.") % {"status": status_text(run.status)})
    elif others > 0:
        lines.append(_("Run: it stays as it is, because %(n)s more operations need a verdict.") % {"n": others})
    else:
        lines.append(_("Run: it becomes %(status)s.") % {"status": status_text(status_after(run).value)})
    lines.append(_("Nothing is sent to the target, and nothing is run again."))
    return lines


def status_after(run: Run) -> Status:
    """Say what a parked run becomes with its last verdict (DESIGN, verdicts)."""
    if run.cancel_id is not None:
        return Status.CANCELLED
    return Status.COMPLETED if run.has_result else Status.FAILED
