"""The pause before a call that was refused for now is tried again: a timer of its own, so that it outlives the worker.

3        the call; its row keeps the newest refusal, with the number of the try
3.0.1    the timer after the first try (branches of a gather count from 1, so nobody else has this path)
"""

from runs.execution.claim import Claim
from runs.execution.earlier import StoredStep
from runs.execution.history import BACK_OFF, History, step_call
from runs.execution.waiting_steps import pass_timer
from runs.states import StepState


def tries_before(history: History, path: str, stored: StoredStep | None) -> int:
    """Say how often the call at this path was tried. A try that a crash cut off is not counted: it is done again."""
    if stored is not None and stored.state is StepState.FAILED:
        return int(stored.error.get("tries", 1))
    tries = 0
    while history.is_finished(_timer_path(path, tries + 1)):
        tries += 1
    return tries


async def back_off(claim: Claim, path: str, tries: int, seconds: float) -> None:
    """Wait after the try of that number. Raises: ScopeCancelled, Unwind (a long pause holds no worker)."""
    # Not known by its length: another version of the tool may wait longer, and this pause is half over.
    step = step_call(_timer_path(path, tries), "timer", BACK_OFF, {"after_try": tries})
    await pass_timer(claim, step, claim.history.find(step), seconds)


def _timer_path(path: str, tries: int) -> str:
    return f"{path}.0.{tries}"
