"""Checking what a caller wants of a new run, the same for a run of its own and for the next one of a conversation."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from runs.access import Actor
from runs.agents.registry import AgentSpec, get_agent
from runs.conf import limits
from runs.decisions.creation import NewRun
from runs.errors import IdempotencyMismatch, InvalidInput
from runs.inputs import check_budget, check_metadata, check_policy, check_seconds, check_title
from runs.models import NextMessage, Run

SHELL = "shell"  # the agent whose runs have a terminal, so another way to begin (runs.shells)


@dataclass(frozen=True, slots=True)
class Created:
    """The run; `is_new` is false when the idempotency key brought back the run it had made before."""

    run: Run
    is_new: bool


def check_new_run(
    *,
    actor: Actor,
    agent: str,
    input: dict[str, Any],
    title: str | None,
    deadline_seconds: float | None,
    on_disconnect: Any,
    metadata: dict[str, Any] | None,
    budget_tokens: int | None,
    idempotency_key: str | None,
    also: dict[str, Any] | None = None,
    right: str = "run.create",
) -> tuple[AgentSpec, NewRun]:
    """Return the agent, and the run as it may be stored. also: what else makes the request another one.

    Raises: NotAllowed, UnknownAgent, InvalidInput (naming the field), IdempotencyMismatch (a message of a conversation
    was sent with this key).
    """
    actor.require(right)
    spec = get_agent(agent)
    if spec.name == SHELL and right == "run.create":
        raise InvalidInput("agent", _("A shell is opened on the page of shells, or by POST /api/v1/shells."))
    checked = spec.normal_input(input)
    policy, grace = check_policy(spec.on_disconnect if on_disconnect is None else on_disconnect)
    default = spec.deadline_seconds or limits().default_deadline_seconds
    body = {"agent": agent, "input": checked, "title": title, "deadline_s": deadline_seconds,
            "on_disconnect": on_disconnect, "metadata": metadata} | (also or {})  # fmt: skip
    budget = check_budget(budget_tokens)
    if budget is not None:
        body["budget_tokens"] = budget
    if also is None and idempotency_key is not None and _is_key_of_message(actor, idempotency_key):
        raise IdempotencyMismatch
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    new = NewRun(
        tenant_id=actor.tenant.pk, user_id=actor.user.pk, agent=spec.name,
        title=check_title(title, checked, spec.name), input=checked, metadata=check_metadata(metadata),
        deadline_seconds=check_seconds("deadline_s", deadline_seconds, default=default), on_disconnect=policy,
        grace_seconds=grace, idempotency_key=idempotency_key,
        idempotency_digest=digest if idempotency_key else None, budget_tokens=budget,
    )  # fmt: skip
    return spec, new


def _is_key_of_message(actor: Actor, key: str) -> bool:
    return NextMessage.objects.filter(created_by=actor.user, tenant=actor.tenant, idempotency_key=key).exists()
