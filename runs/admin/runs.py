"""Runs, attempts, steps, questions, files and the audit at the operators' desk; stopping and retrying from there."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from runs import services
from runs.access import Actor
from runs.admin.desk import ReadOnly, ReadOnlyLines, actor_in, as_json, status_text
from runs.admin.forcing import force_stop_view
from runs.admin.holding import hold_view
from runs.admin.retrying import retry_view
from runs.errors import OutliveError
from runs.ids import text_id
from runs.models import Artifact, Attempt, AuditEntry, Document, Event, Operation, Question, Run, Step
from runs.states import CANCELLABLE, ENDED, SETTLED, CancelReason

EVENT_ROWS = 100


class AttemptLines(ReadOnlyLines):
    """The attempts of a run."""

    model = Attempt
    fk_name = "run"
    fields = ("number", "stream_id", "created_at", "ended_at", "status", "created_by", "reason", "reuse", "keys")
    show_change_link = False


class StepLines(ReadOnlyLines):
    """The steps of a run."""

    model = Step
    fields = ("path", "kind", "name", "effect", "state", "fence", "started_at", "finished_at")


class OperationLines(ReadOnlyLines):
    """What a run did outside."""

    model = Operation
    fields = ("key", "tool", "effect", "state", "fence", "dispatched_at", "settled_at")


class QuestionLines(ReadOnlyLines):
    """What a run asked."""

    model = Question
    fields = ("prompt", "state", "value", "answered_by", "asked_at", "expires_at")


class ArtifactLines(ReadOnlyLines):
    """What a run made."""

    model = Artifact
    fields = ("name", "content_type", "size_bytes", "sha256", "created_at")


class StopForm(forms.Form):
    """Why an operator stops somebody's run."""

    note = forms.CharField(label=gettext_lazy("Note"), max_length=1000, widget=forms.Textarea(attrs={"rows": 3}))


@admin.register(Run)
class RunAdmin(ReadOnly):
    """Runs. Stopping goes through services.cancel_run."""

    change_form_template = "admin/runs/run/change_form.html"
    list_display = ("title", "status_word", "agent", "created_by", "tenant", "attempt", "unknown_ops", "created_at")
    list_filter = ("status", "agent", ("tenant", admin.RelatedOnlyFieldListFilter))
    search_fields = ("id", "title", "agent", "created_by__username")
    list_select_related = ("created_by", "tenant")
    date_hierarchy = "created_at"
    show_full_result_count = False
    inlines = (AttemptLines, StepLines, OperationLines, QuestionLines, ArtifactLines)
    readonly_fields = ("outside_id", "page", "status_word", "input_json", "result_json", "effects_json", "events")
    fieldsets = (
        (None, {"fields": ("outside_id", "page", "status_word", "title", "agent", "tenant", "created_by", "version")}),
        (gettext_lazy("Times"), {"fields": ("created_at", "started_at", "terminal_at", "deadline_at")}),
        (
            gettext_lazy("Stop"),
            {"fields": ("cancel_requested_at", "cancel_reason", "cancel_by", "cancel_note", "cancel_seen_at",
                        "cancel_seen_by", "cancel_seen_fence", "stop_deadline_at", "effects_json")},
        ),
        (
            gettext_lazy("Claim"),
            {"fields": ("attempt", "fence", "lease_owner", "lease_until", "open_ops", "unknown_ops", "waiting_for",
                        "parent", "open_children", "descendants", "deaths", "budget_tokens",
                        "wake_at", "on_disconnect", "grace_seconds", "grace_expires_at", "control_count")},
        ),
        (
            gettext_lazy("Input and result"),
            {"fields": ("input_json", "result_json", "error_code", "error_message", "input_tokens", "output_tokens")},
        ),
        (gettext_lazy("Events"), {"fields": ("last_seq", "floor_seq", "is_held", "events")}),
    )  # fmt: skip

    @admin.display(description=gettext_lazy("Id"))
    def outside_id(self, run: Run) -> str:
        """Show the id as the API writes it."""
        return text_id("run", run.pk)

    @admin.display(description=gettext_lazy("Page"))
    def page(self, run: Run) -> SafeString:
        """Link the run's page; only members of its tenant can open it."""
        address = reverse("pages:run", args=[text_id("run", run.pk)])
        return format_html('<a href="{}">{}</a>', address, address)

    @admin.display(description=gettext_lazy("Status"), ordering="status")
    def status_word(self, run: Run) -> str:
        """Show the status in the words of the pages."""
        return f"{status_text(run.status)} ({run.status})"

    @admin.display(description=gettext_lazy("Input"))
    def input_json(self, run: Run) -> SafeString:
        """Show the input."""
        return as_json(run.input)

    @admin.display(description=gettext_lazy("Result"))
    def result_json(self, run: Run) -> SafeString:
        """Show the result."""
        return as_json(run.result)

    @admin.display(description=gettext_lazy("What the stop met"))
    def effects_json(self, run: Run) -> SafeString:
        """Show the receipt of the stop."""
        return as_json(run.cancel_effects)

    @admin.display(description=gettext_lazy("Newest events"))
    def events(self, run: Run) -> SafeString:
        """Show the newest events of the current attempt: events have a composite key and no admin of their own."""
        newest = Event.objects.filter(stream_id=run.stream_id).order_by("-seq")[:EVENT_ROWS]
        rows = format_html_join(
            "",
            "<tr><td>{}</td><td>{}</td><td><code>{}</code></td></tr>",
            ((e.seq, e.type, e.data[:500]) for e in newest),
        )
        head = (_("Seq"), _("Type"), _("Data"))
        return format_html(
            "<table><thead><tr><th>{}</th><th>{}</th><th>{}</th></tr></thead><tbody>{}</tbody></table>", *head, rows
        )

    def get_urls(self) -> list[Any]:
        """Add the pages that stop, force-stop, retry and hold a run."""
        stop = path("<uuid:run_id>/stop/", self.admin_site.admin_view(self.stop_view), name="runs_run_stop")
        retry = path("<uuid:run_id>/retry/", self.admin_site.admin_view(self.retry_view), name="runs_run_retry")
        hold = path("<uuid:run_id>/hold/", self.admin_site.admin_view(self.hold_view), name="runs_run_hold")
        force = self.admin_site.admin_view(self.force_stop_view)
        forced = path("<uuid:run_id>/force-stop/", force, name="runs_run_force_stop")
        return [stop, forced, retry, hold, *super().get_urls()]

    def force_stop_view(self, request: HttpRequest, run_id: UUID) -> HttpResponse:
        """Say what it means and ask why, then end the run without waiting."""
        run = self.get_queryset(request).filter(pk=run_id).first()
        if run is None:
            raise Http404
        return force_stop_view(request, run, self.admin_site.each_context(request))

    def hold_view(self, request: HttpRequest, run_id: UUID) -> HttpResponse:
        """Ask why, then hold the run or release it."""
        run = self.get_queryset(request).filter(pk=run_id).first()
        if run is None:
            raise Http404
        return hold_view(request, run, self.admin_site.each_context(request))

    def retry_view(self, request: HttpRequest, run_id: UUID) -> HttpResponse:
        """Ask why and what to reuse, then retry."""
        run = self.get_queryset(request).filter(pk=run_id).first()
        if run is None:
            raise Http404
        return retry_view(request, run, self.admin_site.each_context(request))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the run, with the way to a stop while it can be stopped, and to a retry once it is settled."""
        run = self.get_object(request, object_id)
        context = {
            "can_stop": run is not None and run.status in CANCELLABLE,
            "can_force_stop": run is not None and run.status not in ENDED,
            "can_retry": run is not None and run.status in SETTLED,
            "can_hold": run is not None and actor_in(request, run.tenant).may("run.hold", run),
        }
        return super().change_view(request, object_id, form_url, (extra_context or {}) | context)

    def stop_view(self, request: HttpRequest, run_id: UUID) -> HttpResponse:
        """Ask why, then stop the run with the reason `operator`."""
        run = self.get_queryset(request).filter(pk=run_id).first()
        if run is None:
            raise Http404
        form = StopForm(request.POST or None)
        if request.method == "POST" and form.is_valid() and self._stop(request, run, form.cleaned_data["note"]):
            return HttpResponseRedirect(reverse("admin:runs_run_change", args=[run.pk]))
        context = {**self.admin_site.each_context(request), "run": run, "form": form, "title": _("Stop a run"),
                   "opts": self.model._meta, "status": status_text(run.status)}  # fmt: skip
        return render(request, "admin/runs/run/stop.html", context)

    def _stop(self, request: HttpRequest, run: Run, note: str) -> bool:
        actor: Actor = actor_in(request, run.tenant)
        try:
            receipt = services.cancel_run(actor=actor, run_id=run.pk, note=note, reason=CancelReason.OPERATOR)
        except OutliveError as refusal:
            messages.error(request, refusal.message)
            return False
        if receipt.too_late:
            messages.warning(request, _("It finished before your stop took effect."))
        else:
            messages.success(request, _("The stop is recorded. No new step will start."))
        return True


@admin.register(Step)
class StepAdmin(ReadOnly):
    """Steps, on their own page: reached from a run."""

    tenant_path = "run__tenant"
    list_display = ("path", "kind", "name", "state", "run", "started_at", "finished_at")
    list_filter = ("kind", "state")
    search_fields = ("name", "run__title")
    list_select_related = ("run",)
    show_full_result_count = False


@admin.register(Question)
class QuestionAdmin(ReadOnly):
    """Questions, answered on the run's page only."""

    tenant_path = "run__tenant"
    list_display = ("prompt", "state", "run", "answered_by", "asked_at", "expires_at")
    list_filter = ("state",)
    list_select_related = ("run", "answered_by")


@admin.register(Artifact)
class ArtifactAdmin(ReadOnly):
    """Files that runs made; downloads go through the API."""

    tenant_path = "run__tenant"
    list_display = ("name", "run", "content_type", "size_bytes", "created_at")
    exclude = ("content",)
    list_select_related = ("run",)


@admin.register(Document)
class DocumentAdmin(ReadOnly):
    """Uploaded documents."""

    list_display = ("name", "tenant", "uploaded_by", "content_type", "size_bytes", "error", "created_at")
    search_fields = ("name",)
    list_select_related = ("tenant", "uploaded_by")


@admin.register(AuditEntry)
class AuditAdmin(ReadOnly):
    """Who did what. Rows are only added."""

    list_display = ("at", "user", "action", "subject", "tenant")
    list_filter = ("action",)
    search_fields = ("subject", "user__username")
    list_select_related = ("user", "tenant")
