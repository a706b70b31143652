"""Starting a run: the form of an agent, documents for it, and the demo run.

The form carries an idempotency key that is made with the page. A double click, Back, or sending again after a lost
answer therefore opens the same run; nothing here repeats a create by itself.
"""

from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from runs import selectors, services
from runs.access import Actor
from runs.agents.registry import AgentSpec, all_agents, get_agent
from runs.documents.selectors import visible_documents
from runs.errors import IdempotencyMismatch, InvalidInput, NotFound, OutliveError, UnknownAgent
from runs.ids import BadId, new_id, parse_id, text_id
from runs.models import Run
from runs.pages.documents import limited_body, take_files, take_samples
from runs.pages.schema_form import Filled, FormField, fields_of, fill, shown
from runs.pages.visits import page, show

KEY_LENGTH = 200
PREFIX = "f-"
DEFAULT_AGENT = "researcher"


@dataclass
class Draft:
    """The form as the page shows it."""

    agent: AgentSpec
    form: Filled
    key: str
    deadline: str = ""
    problem: str = ""
    upload_problems: list[str] = field(default_factory=list)
    replayed_run: UUID | None = None
    status: int = 200


@limited_body
@require_http_methods(["GET", "HEAD", "POST"])
@page
def new_run(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the form of an agent; POST starts the run, uploads documents, or loads the sample documents."""
    agent = _agent_of(request)
    fields = fields_of(agent.input_schema(), prefix=PREFIX)
    if request.method != "POST":
        filled = Filled(_like(request, actor, agent, fields), {})
        return _show_form(request, actor, Draft(agent, filled, _new_key()))
    actor.require("run.create")
    key = request.POST.get("key", "")[:KEY_LENGTH].replace("\x00", "") or _new_key()
    draft = Draft(agent, fill(fields, request.POST), key, deadline=request.POST.get("deadline", ""))
    if request.POST.get("do") in ("upload", "samples"):
        return _show_form(request, actor, _add_documents(request, actor, draft))
    return _start(request, actor, draft)


@require_POST
@page
def demo_run(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Start a run that needs no input from the person: the sample documents and a question about them."""
    take_samples(actor)
    agent = get_agent(DEFAULT_AGENT)
    names = [f.name for f in fields_of(agent.input_schema(), prefix="") if f.kind in ("text", "lines")]
    question = _("What do these documents say, and where do they disagree?")
    created = services.create_run(
        actor=actor,
        agent=agent.name,
        input={names[0]: question} if names else {},
        idempotency_key=request.POST.get("key", "")[:KEY_LENGTH].replace("\x00", "") or None,
    )
    return _to_run(created.run)


def _start(request: HttpRequest, actor: Actor, draft: Draft) -> HttpResponse:
    if not draft.form.is_good:
        draft.status = 400
        return _show_form(request, actor, draft)
    try:
        created = services.create_run(
            actor=actor,
            agent=draft.agent.name,
            input=draft.form.values,
            deadline_seconds=DEADLINES.get(draft.deadline),
            idempotency_key=draft.key,
        )
    except IdempotencyMismatch:
        first = Run.objects.filter(created_by=actor.user, tenant=actor.tenant, idempotency_key=draft.key).first()
        draft.replayed_run, draft.key, draft.status = first.pk if first else None, _new_key(), 422
    except InvalidInput as error:
        draft.form, draft.status = draft.form.with_errors(_by_field(error)), 400
        draft.problem = "" if not draft.form.is_good else error.message
    except OutliveError as error:
        if error.code in ("forbidden", "not_found"):
            raise
        draft.problem, draft.status = error.message, 503
    else:
        return _to_run(created.run)
    return _show_form(request, actor, draft)


def _by_field(error: InvalidInput) -> dict[str, str]:
    """Give the messages by the form's field: "input.documents.3" belongs to `documents`."""
    named = error.details.get("fields") or [{"field": error.field, "message": error.message}]
    found: dict[str, str] = {}
    for one in named:
        first, _dot, rest = str(one["field"]).partition(".")
        found.setdefault((rest if first == "input" else first).partition(".")[0], str(one["message"]))
    return found


def _add_documents(request: HttpRequest, actor: Actor, draft: Draft) -> Draft:
    if request.POST.get("do") == "samples":
        added, draft.upload_problems = take_samples(actor), []
    else:
        added, draft.upload_problems = take_files(request, actor)
    picked = [text_id("doc", d.pk) for d in added]
    draft.form = Filled(
        [
            replace(f, error="", value=[*f.value, *picked] if f.kind == "documents" else f.value)
            for f in draft.form.fields
        ],
        {},
    )
    return draft


def _agent_of(request: HttpRequest) -> AgentSpec:
    """Find the agent that the address names, else the first listed one. Raises: Http404."""
    name = request.POST.get("agent") or request.GET.get("agent")
    listed = [a for a in all_agents() if a.is_listed]
    if not name:
        return next((a for a in listed if a.name == DEFAULT_AGENT), listed[0])
    try:
        return get_agent(name)
    except UnknownAgent as error:
        raise Http404(error.message) from error


def _like(request: HttpRequest, actor: Actor, agent: AgentSpec, fields: list[FormField]) -> list[FormField]:
    """Fill the form with the input of another run that the visitor may see (`?like=run_…`)."""
    try:
        other = selectors.get_run(actor, parse_id("run", request.GET.get("like", "")))
    except (BadId, NotFound):
        return fields
    if other.agent != agent.name or not isinstance(other.input, dict):
        return fields
    return [replace(f, value=shown(f.kind, other.input[f.name])) if f.name in other.input else f for f in fields]


DEADLINES: dict[str, float] = {"300": 300.0, "3600": 3600.0, "28800": 28_800.0, "86400": 86_400.0}


def _deadline_choices() -> list[tuple[str, str]]:
    return [
        ("", _("the agent's own limit")),
        ("300", _("5 minutes")),
        ("3600", _("1 hour")),
        ("28800", _("8 hours")),
        ("86400", _("1 day")),
    ]


def _show_form(request: HttpRequest, actor: Actor, draft: Draft) -> HttpResponse:
    picks = next((f.value for f in draft.form.fields if f.kind == "documents"), None)
    documents = list(visible_documents(actor)) if picks is not None else []
    for document in documents:
        document.is_picked = text_id("doc", document.pk) in (picks or [])  # type: ignore[attr-defined]
    context: dict[str, Any] = {
        "agents": [a for a in all_agents() if a.is_listed],
        "agent": draft.agent,
        "form": draft.form,
        "key": draft.key,
        "documents": documents,
        "deadline": draft.deadline,
        "deadlines": _deadline_choices(),
        "problem": draft.problem,
        "upload_problems": draft.upload_problems,
        "replayed_run": draft.replayed_run,
        "leaving": _leaving(draft.agent),
    }
    return show(request, actor, "pages/new.html", context, section="new", status=draft.status)


def _leaving(agent: AgentSpec) -> str:
    if agent.on_disconnect == "continue":
        return _("It goes on when you close the page.")
    return _("It stops soon after its page is closed.")


def _new_key() -> str:
    return f"page-{new_id().hex}"


def _to_run(run: Run) -> HttpResponse:
    """Answer a POST with the run's page (303: what follows is a GET, so a reload starts nothing)."""
    answer = HttpResponseRedirect(reverse("pages:run", args=[text_id("run", run.pk)]))
    answer.status_code = 303
    return answer
