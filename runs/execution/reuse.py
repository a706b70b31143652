"""A step that is stored already, in this attempt or, for a retry, in one before: then nothing is done for it."""

from collections.abc import Callable
from typing import Any

from runs.decisions.core import Fact
from runs.decisions.dispatch import Refused, StepCall
from runs.decisions.reuse import take_over_step
from runs.decisions.steps import Done
from runs.execution.claim import Claim
from runs.execution.earlier import StoredStep
from runs.execution.gate import refused
from runs.ids import new_id, text_id

STORED_STEP = "select 1 from runs_step where stream_id = %(stream)s and path = %(path)s and state = 'finished'"


async def find_stored(
    claim: Claim, step: StepCall, tell: Callable[[StoredStep], list[Fact]] = lambda _: []
) -> StoredStep | None:
    """Return what is stored of a step; a finished one of an earlier attempt is taken over first.

    Args: tell: what the new stream says of a step that is taken over.
    Raises: StepMismatch, ScopeCancelled, Unwind.
    """
    stored = claim.history.find(step)
    if stored is not None:
        return stored
    earlier = claim.history.find_earlier(step)
    if earlier is None:
        return None
    await claim.pass_boundary()
    facts = tell(earlier)

    async def landed() -> Done | None:
        rows = await claim.fetch(STORED_STEP, stream=claim.origin.stream_id, path=step.path)
        return Done(None) if rows else None

    with claim.branches.step_in_flight():
        answer = await claim.decide(
            lambda: take_over_step(
                run_id=claim.origin.run_id, fence=claim.held.fence, step=step, old_step_id=earlier.id, facts=facts
            ),
            landed=landed,
        )
        if isinstance(answer, Refused):
            await refused(claim, answer.reason)
    return earlier


def text_facts(text: str, label: str | None) -> list[Fact]:
    """Make the events of a whole text."""
    message = text_id("msg", new_id())
    start: dict[str, Any] = {"message_id": message, "role": "assistant"} | ({"label": label} if label else {})
    return [
        Fact("text.start", start),
        Fact("text.delta", {"message_id": message, "delta": text}),
        Fact("text.end", {"message_id": message, "final": True}),
    ]
