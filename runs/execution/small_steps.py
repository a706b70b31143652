"""What a run leaves without calling anything outside: a text, a file, a title."""

import hashlib
from uuid import UUID

from runs.decisions.claims import Lost
from runs.decisions.dispatch import Refused
from runs.decisions.steps import Done, instant_step, set_title, store_artifact
from runs.execution.claim import Claim
from runs.execution.gate import refused
from runs.execution.history import step_call
from runs.execution.reuse import STORED_STEP, find_stored, text_facts
from runs.ids import new_id, text_id
from runs.states import StepState
from tools.plain_json import clean_text

ARTIFACT = (
    "select id from runs_artifact where run_id = %(run)s and name = %(name)s and sha256 = coalesce(%(sha)s, sha256)"
)


async def say(claim: Claim, text: str, label: str | None) -> None:
    """Say a whole text as one step. Raises: ScopeCancelled, Unwind."""
    step = step_call(claim.branches.next_path(), "text", label or "text", {"text": text})
    facts = text_facts(text, label)
    stored = await find_stored(claim, step, lambda _: facts)
    if stored is not None and stored.state is StepState.FINISHED:
        return
    await claim.pass_boundary()

    async def landed() -> Done | None:
        rows = await claim.fetch(STORED_STEP, stream=claim.origin.stream_id, path=step.path)
        return Done(None) if rows else None

    with claim.branches.step_in_flight():
        answer = await claim.decide(
            lambda: instant_step(
                run_id=claim.origin.run_id, fence=claim.held.fence, step=step, result=None, facts=facts
            ),
            landed=landed,
        )
        if isinstance(answer, Refused):
            await refused(claim, answer.reason)


async def keep_artifact(claim: Claim, name: str, content: str | bytes, content_type: str) -> str:
    """Store a file of the run, once for the same content; return its id. Raises: ScopeCancelled, Unwind."""
    raw = content.encode("utf-8", "replace") if isinstance(content, str) else content
    digest = hashlib.sha256(raw).hexdigest()
    await claim.pass_boundary()
    # While stored steps are walked again a later version may be there already: it must not be replaced by this one.
    sha = None if claim.history.is_replaying else digest
    with claim.branches.step_in_flight():
        if rows := await claim.fetch(ARTIFACT, run=claim.origin.run_id, name=name, sha=sha):
            return text_id("art", rows[0]["id"])
        answer: UUID | Lost = await claim.decide(
            lambda: store_artifact(
                run_id=claim.origin.run_id,
                fence=claim.held.fence,
                artifact_id=new_id(),
                name=clean_text(name)[:255],
                content_type=content_type[:100],
                content=raw,
                sha256=digest,
            )
        )
    if isinstance(answer, Lost):
        claim.lost()
    return text_id("art", answer)


async def give_title(claim: Claim, title: str) -> None:
    """Give the run a title; walking stored steps again leaves it alone. Raises: ScopeCancelled, Unwind."""
    if claim.history.is_replaying:
        return
    await claim.pass_boundary()
    with claim.branches.step_in_flight():
        answer = await claim.decide(
            lambda: set_title(run_id=claim.origin.run_id, fence=claim.held.fence, title=clean_text(title)[:300])
        )
    if isinstance(answer, Lost):
        claim.lost()
