"""Runs in the states that pages must show, made through the real decisions: what a page sees is what happens."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from runs import frames, ringing
from runs.access import Actor
from runs.database import decide
from runs.decisions import append, cancels, claims, dispatch, endings, retry, reuse, steps, waiting
from runs.decisions.core import Fact
from runs.execution.reuse import text_facts
from runs.ids import new_id, text_id
from runs.models import Run, Step
from runs.states import CancelReason, Status
from tests.builders import a_claim, a_run, silent
from tests.streaming.conftest import wait_until

APPROVAL = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Approve", "description": "Go on with exactly what is shown?"},
        "note": {"type": "string", "title": "Note", "maxLength": 1000, "default": ""},
    },
    "required": ["approve"],
    "additionalProperties": False,
}


class Scene:
    """A claimed run whose steps are written by the test."""

    def __init__(self, actor: Actor, *, ring: Any = silent, run: Run | None = None, **changes: Any) -> None:
        self.ring = ring  # ring_now where a page is open and follows
        self.run = run or a_run(actor, **changes)
        self.fence = a_claim(self.run)
        self.batch = 0
        self.path = 0

    def reload(self) -> Run:
        """Read the row again."""
        self.run.refresh_from_db()
        return self.run

    def model(self, text: str, *, label: str | None = None, is_open: bool = False) -> tuple[UUID, UUID]:
        """Make a model step with its text; returns (step id, message id)."""
        message_id = new_id()
        step_id = self._dispatch("model", "local", None, message_id=message_id, label=label)
        half = len(text) // 2
        self.events(
            "text.delta",
            step_id,
            *({"message_id": text_id("msg", message_id), "delta": d} for d in (text[:half], text[half:])),
        )
        if not is_open:
            usage = {"input_tokens": 120, "output_tokens": len(text) // 4}
            model = {
                "provider": "local",
                "model": "smol",
                "request_id": "req-7",
                "stop_reason": "stop",
                "provider_side": "finished",
            }
            self._do(
                steps.finish_step(
                    run_id=self.run.pk,
                    fence=self.fence,
                    step_id=step_id,
                    state="finished",
                    result=text,
                    usage=usage,
                    model=model,
                )
            )
        return step_id, message_id

    def say(self, step_id: UUID, message_id: UUID, *words: str) -> None:
        """Let the model say more, one event a word."""
        self.events("text.delta", step_id, *({"message_id": text_id("msg", message_id), "delta": w} for w in words))

    def finish(self, step_id: UUID, text: str) -> None:
        """End a model step."""
        self._do(
            steps.finish_step(run_id=self.run.pk, fence=self.fence, step_id=step_id, state="finished", result=text)
        )

    def tool(
        self, name: str = "search_documents", *, effect: str = "read", arguments: Any = None,
        outcome: str | None = "succeeded", value: Any = None,
    ) -> UUID:  # fmt: skip
        """Make a tool step; outcome None leaves it in flight."""
        step_id = self._dispatch("tool", name, effect, shown=arguments or {"query": "stock"})
        if outcome is None:
            return step_id
        receipt = (
            {"proof": "http 201", "external_id": "INV-8"}
            if outcome == "succeeded"
            else {"error": "no answer within 5 s", "proof": "none"}
        )
        if outcome == "stopped":
            receipt = {"error": "The command was stopped (user).", "proof": "process tree empty", "stopped": True}
        word = "succeeded" if outcome == "stopped" else outcome  # it has run
        known = steps.OperationOutcome(word, receipt, gave_up=True) if effect != "read" else None
        good = outcome == "succeeded"
        tool = (
            {"ok": good, "value": value if value is not None else {"hits": 3}, "proof": receipt["proof"]}
            if good
            else {"ok": False, "error": receipt["error"]} | ({"stopped": True} if outcome == "stopped" else {})
        )
        self._do(
            steps.finish_step(
                run_id=self.run.pk, fence=self.fence, step_id=step_id, state="finished" if good else "failed",
                error=None if good else {"code": "tool_failed", "message": receipt["error"]}, tool=tool, outcome=known,
            )
        )  # fmt: skip
        return step_id

    def ask(self, prompt: str, schema: Any) -> UUID:
        """Ask a person, and wait."""
        question_id = new_id()
        self._do(
            waiting.ask(
                run_id=self.run.pk, fence=self.fence, step=self._call("ask", "ask", None), question_id=question_id,
                prompt=prompt, schema=schema, timeout_seconds=3600,
            )
        )  # fmt: skip
        self._do(waiting.wait(run_id=self.run.pk, fence=self.fence, wakes=0, waiting_for="input"))
        return question_id

    def artifact(
        self, name: str = "report.md", content: bytes = b"# Report\n\nAll is well.", kind: str = "text/markdown"
    ) -> UUID:
        """Store a file."""
        made: UUID = self._do(
            steps.store_artifact(
                run_id=self.run.pk, fence=self.fence, artifact_id=new_id(), name=name, content_type=kind,
                content=content, sha256="a" * 64,
            )
        )  # fmt: skip
        return made

    def complete(self, result: Any = None) -> Run:
        """End the run well."""
        self._do(endings.finish_run(run_id=self.run.pk, fence=self.fence, status=Status.COMPLETED, result=result))
        return self.reload()

    def fail(self, code: str, message: str) -> Run:
        """End the run badly."""
        self._do(
            endings.finish_run(
                run_id=self.run.pk, fence=self.fence, status=Status.FAILED, error_code=code, error_message=message
            )
        )  # fmt: skip
        return self.reload()

    def retry(self, actor: Actor, **wish: Any) -> "Scene":
        """Try the ended run again; the scene goes on in the new attempt, claimed."""
        made = self._do(
            retry.retry(retry.Wish(run_id=self.run.pk, user_id=actor.user.pk, user_name=actor.user.username, **wish))
        )
        assert isinstance(made, retry.Retried), made
        return Scene(actor, ring=self.ring, run=self.reload())

    def take_over(self, old_step_id: UUID, *facts: Fact) -> None:
        """Take a finished step of an earlier attempt over."""
        old = Step.objects.get(pk=old_step_id)
        call = dispatch.StepCall(old.path, old.kind, old.name, old.arguments, old.digest, old.effect)
        self.path = int(old.path)
        self._do(
            reuse.take_over_step(run_id=self.run.pk, fence=self.fence, step=call, old_step_id=old.pk, facts=list(facts))
        )

    def park(self) -> Run:
        """End the run with an outcome that nobody knows."""
        self._do(endings.park(run_id=self.run.pk, fence=self.fence))
        return self.reload()

    def cancel(self, actor: Actor) -> Run:
        """Record the request to stop; the claim holder has not seen it."""
        self._do(cancels.request_cancel(run_id=self.run.pk, reason=CancelReason.USER, by=actor.user.pk))
        return self.reload()

    def stopped(self) -> Run:
        """Let the holder see the request, once it is recorded, and end the run: pages say "Stopping…" before that."""
        wait_until(lambda: self.reload().status == Status.CANCEL_REQUESTED, what="a recorded request to stop")
        self._do(claims.see_cancel(run_id=self.run.pk, fence=self.fence))
        self._do(endings.end_cancel(run_id=self.run.pk, fence=self.fence))
        assert self.reload().status == Status.CANCELLED
        return self.run

    def abandon(self, step_id: UUID) -> None:
        """Let the holder drop a read or a model call."""
        error = {"code": "cancelled", "message": "dropped by a stop", "provider_side": "stopped"}
        self._do(
            steps.finish_step(
                run_id=self.run.pk, fence=self.fence, step_id=step_id, state="abandoned", error=error, reason="stop"
            )
        )

    def events(self, kind: str, step_id: UUID | None, *datas: dict[str, Any]) -> None:
        """Append events as the worker's writer does."""
        self.batch += 1
        self.reload()
        origin = frames.Origin(self.run.pk, self.run.attempt, self.run.stream_id)
        drafts = [frames.draft(origin, kind, d, at=datetime.now(UTC), step_id=step_id) for d in datas]
        stored = self._do(append.append_many([append.Batch(self.run.pk, self.fence, self.batch, drafts)]))
        assert self.run.pk in stored
        if self.ring is not silent:
            ringing.client().publish(*frames.bell(self.run.stream_id, stored[self.run.pk], [d.text for d in drafts]))

    def _call(self, kind: str, name: str, effect: str | None, arguments: Any = None) -> dispatch.StepCall:
        self.path += 1
        return dispatch.StepCall(str(self.path), kind, name, arguments or {}, f"{self.path:064d}", effect)

    def _dispatch(self, kind: str, name: str, effect: str | None, **more: Any) -> UUID:
        call = self._call(kind, name, effect, more.get("shown"))
        operation = None
        if effect not in (None, "read"):
            operation = dispatch.OperationCall(f"{self.run.pk.hex}:{call.path}", False, True, 5.0)
        if kind == "model":
            more["shown"] = {"provider": "local", "model": "smol"}
        sent = self._do(
            dispatch.dispatch(
                run_id=self.run.pk, fence=self.fence, worker="worker-a", step=call, nonce=new_id(), operation=operation,
                **more,
            )
        )  # fmt: skip
        assert isinstance(sent, dispatch.Dispatched), sent
        return sent.step_id

    def _do(self, decision: Any) -> Any:
        return decide(decision, ring=self.ring)


REPORT = b"""# What the documents say

The three notes agree on the date, and differ on the cost [1].

| Source | Cost |
|---|---|
| budget.md | 12,400 |
| memo.txt | 11,900 |

1. **Budget**: [budget.md, page 2](https://example.invalid/budget)

> "The total is 12,400."
"""


def every_state(owner: Actor) -> dict[str, Run]:
    """Make one run for each state that a page must show."""
    made = {"queued": a_run(owner, agent="researcher", title="What changed in the lease of the north depot?")}
    running = Scene(
        owner,
        agent="researcher",
        title="Compare the three supplier offers and name the cheapest that delivers before May",
    )
    running.tool(arguments={"query": "offer delivery date", "limit": 16})
    running.tool(
        "read_document",
        arguments={"document": "offer-a.pdf", "passages": [3, 4]},
        value={"text": "Delivery in week 16, price 12,400 EUR."},
    )
    running.model(
        "Supplier A delivers in week 16 for 12,400 EUR, with a penalty clause from week 18 on. ",
        label="Summary of offer-a.pdf",
    )
    running.model(
        "Comparing the offers: A is the dearest but the only one with a penalty clause. B is cheaper by 500 EUR and",
        is_open=True,
    )
    made["running"] = running.reload()
    asking = Scene(owner, agent="assistant", title="Write to the landlord about the broken heating")
    asking.model("I have a draft. It names the date, the two calls, and asks for an answer by Friday.")
    asking.ask("Send this mail to office@example.invalid?", APPROVAL)
    made["waiting"] = asking.reload()
    stopping = Scene(owner, agent="billing", title="Invoice 1250 to Miller & Sons")
    stopping.tool(
        "create_invoice", effect="idempotent", arguments={"customer": "Miller & Sons", "cents": 1250}, outcome=None
    )
    made["stopping"] = stopping.cancel(owner)
    stopped = Scene(owner, agent="researcher", title="Who signed the contract, and when?")
    stopped.tool("create_invoice", effect="idempotent", arguments={"customer": "Miller & Sons", "cents": 1250})
    step_id, _message = stopped.model("The contract was signed by both parties on the twelfth of", is_open=True)
    stopped.cancel(owner)
    stopped.abandon(step_id)
    made["stopped"] = stopped.stopped()
    command = Scene(owner, agent="researcher", title="Build the book")
    command.tool(
        "shell_run", effect="write", arguments={"shell": "1", "command": "make -C book\nls"}, outcome="stopped"
    )
    command.cancel(owner)
    made["stopped_command"] = command.stopped()
    done = Scene(owner, agent="researcher", title="What do these documents say, and where do they disagree?")
    done.tool(arguments={"query": "documents disagree"})
    done.model("The three notes agree on the date, and differ on the cost.", label="Answer")
    done.artifact(content=REPORT)
    made["completed"] = done.complete({"answer": "They agree on the date, and differ on the cost.", "sources": 2})
    failed = Scene(owner, agent="chat", title="Say hello")
    made["failed"] = failed.fail(
        "model_auth", "The model's key was refused. Set OPENAI_API_KEY to a valid key and start again."
    )
    lost = Scene(owner, agent="billing", title="Invoice 99 to Lost & Found")
    lost.tool(
        "create_invoice", effect="idempotent", arguments={"customer": "Lost & Found", "cents": 99}, outcome="unknown"
    )
    made["verifying"] = lost.park()
    first = Scene(owner, agent="billing", title="Invoice 7 to Again & Sons")
    step_id, _message = first.model("For the work in May.", label="Line on the invoice")
    first.fail("model_unavailable", "The model did not answer.")
    second = first.retry(owner, reason="the model is back")
    second.take_over(step_id, *text_facts("For the work in May.", "Line on the invoice"))
    second.model("And thank you.", is_open=True)
    made["retried"] = second.reload()
    return made
