"""A model call as a durable step: permit, streamed text through the writer, stored reply."""

import asyncio
import logging
from contextlib import aclosing
from typing import Any
from uuid import UUID

from runs.agents.context import ModelReply
from runs.agents.errors import ModelFailed
from runs.decisions.claims import Lost
from runs.decisions.dispatch import InOperation, StepCall
from runs.decisions.steps import Done, finish_step
from runs.execution.claim import Claim
from runs.execution.deltas import Deltas
from runs.execution.gate import LATE_TRIES, Begun, begin, operation_key
from runs.execution.history import in_order, step_call
from runs.execution.model_ask import ModelAsk, as_stored, read_value, replay
from runs.execution.outlet import OutletClosed
from runs.execution.reuse import find_stored, text_facts
from runs.failpoints import hit
from runs.ids import new_id, text_id
from runs.states import StepState
from tools.errors import PermitVoid
from tools.models.protocol import (
    Finished,
    ModelError,
    ModelProvider,
    ModelRequest,
    TextDelta,
    ToolUse,
    ToolUseDelta,
    Usage,
)
from tools.registry import describe_for_model
from tools.scope import CancelReason, ScopeCancelled

logger = logging.getLogger(__name__)

STEP_CLOSED = "select 1 from runs_step where id = %(step)s and state <> 'open'"


async def ask_model(claim: Claim, ask: ModelAsk) -> ModelReply:
    """Do the step, or return (or raise) what it brought before. Raises: ModelFailed, ScopeCancelled, Unwind."""
    step = step_call(claim.branches.next_path(), "model", ask.label or "model", ask.known_by(), stored=ask.stored())
    stored = await find_stored(claim, step, lambda earlier: text_facts(earlier.value["text"], ask.label))
    if stored is not None and stored.state in (StepState.FINISHED, StepState.FAILED):
        return replay(stored, ask)
    for late in range(1, LATE_TRIES + 1):
        await claim.pass_boundary()
        await hit("before_model")
        with claim.branches.step_in_flight():
            reply = await _ask_once(claim, ask, step, may_come_again=late < LATE_TRIES)
        if reply is not None:
            return reply
        logger.warning("model.permit_late", extra={"run_id": claim.run_text, "tries": late})
    raise AssertionError("the last try brings a reply or raises")


async def _ask_once(claim: Claim, ask: ModelAsk, step: StepCall, *, may_come_again: bool) -> ModelReply | None:
    """Return the reply; None when the permit was void before the call began, and it may be asked for anew."""
    try:
        provider = claim.hands.provider(ask.model)
    except ModelError as error:
        provider = _Refusing(error)
    message_id = new_id()
    begun = await begin(
        claim,
        step,
        key=operation_key(claim, step),
        message_id=message_id,
        label=ask.label,
        shown={"provider": provider.name, "model": ask.model or provider.name},
    )
    assert not isinstance(begun, InOperation)  # a model call has no ledger row
    return await _Talk(claim, ask, provider, begun, message_id, may_come_again=may_come_again).hold()


class _Refusing:
    """A provider that cannot be made (no key, unknown name): its error belongs to the step that asked for it."""

    name = "none"
    supports_tools = False

    def __init__(self, error: ModelError) -> None:
        self._error = error

    async def stream(self, request: ModelRequest, *, scope: Any) -> Any:
        raise self._error
        yield  # makes this an async generator, as the protocol wants


class _Talk:
    """One call of a provider, from its permit to its stored reply."""

    def __init__(
        self,
        claim: Claim,
        ask: ModelAsk,
        provider: ModelProvider,
        begun: Begun,
        message_id: UUID,
        *,
        may_come_again: bool,
    ) -> None:
        self._claim = claim
        self._ask = ask
        self._provider = provider
        self._begun = begun
        self._may_come_again = may_come_again
        self._deltas = Deltas(claim.origin, step_id=begun.step_id, message_id=message_id)
        self._text: list[str] = []
        self._uses: list[ToolUse] = []
        self._usage: Usage | None = None
        self._finished: Finished | None = None

    async def hold(self) -> ModelReply | None:
        try:
            with self._claim.held.permit_in_use(self._begun.permit):
                await self._listen()
            reply = self._reply()
        except ScopeCancelled as stop:
            await self._abandon(stop.reason)
            raise
        except OutletClosed:
            self._claim.lost()
        except asyncio.CancelledError:
            # Not the run was stopped but this await: by an agent's own timeout. The call must not stay open.
            if self._claim.scope.reason is None:
                self._claim.start_call(self._abandon(CancelReason.USER))
            raise
        except Exception as error:
            if isinstance(error, PermitVoid) and self._may_come_again and self._claim.scope.reason is None:
                await self._store(state="superseded", model=self._facts("stopped"), reason="superseded")
                return None
            failed = self._as_failed(error)
            await self._finish_failed(failed)
            raise failed from error
        await self._finish(reply)
        await hit("after_model_before_dispatch")
        return reply

    def _as_failed(self, error: Exception) -> ModelFailed:
        if isinstance(error, ModelFailed):
            return error
        if isinstance(error, ModelError):
            return ModelFailed(error.code, error.message, retryable=error.retryable)
        if isinstance(error, PermitVoid):
            return ModelFailed("unavailable", "The permit ran out before the call began.", retryable=True)
        logger.exception("model.raised", extra={"run_id": self._claim.run_text, "provider": self._provider.name})
        return ModelFailed("unavailable", f"The model adapter failed: {type(error).__name__}.")

    async def _listen(self) -> None:
        claim, ask = self._claim, self._ask
        request = ModelRequest(
            messages=ask.messages,
            tools=tuple(describe_for_model(tool) for tool in ask.tools),
            schema=ask.json_schema,
            max_tokens=ask.max_tokens,
            temperature=ask.temperature,
            seed=ask.seed,
            metadata={
                **(claim.run["metadata"] or {}),
                **ask.metadata,
                "run_id": claim.run_text,
                "step_id": text_id("step", self._begun.step_id),
            },
        )
        claim.scope.raise_if_cancelled()
        self._begun.permit.open()
        outlet, deltas, text = claim.held.outlet, self._deltas, self._text
        async with aclosing(self._provider.stream(request, scope=claim.scope)) as stream:
            async for item in stream:
                if isinstance(item, TextDelta):
                    text.append(item.text)
                    outlet.push(deltas.draft(item.text))
                    if outlet.is_full:
                        await outlet.room()
                elif isinstance(item, ToolUseDelta):
                    use = item.tool_use
                    self._uses.append(ToolUse(use.id, use.name, in_order(use.arguments)))
                elif isinstance(item, Usage):
                    self._usage = item
                else:
                    self._finished = item

    def _reply(self) -> ModelReply:
        assert self._finished is not None  # the protocol: a stream that ends without Finished raises
        text = "".join(self._text)
        return ModelReply(
            text=text,
            tool_uses=tuple(self._uses),
            stop_reason=self._finished.stop_reason,
            value=None if self._uses else read_value(self._ask.schema, text),
            input_tokens=self._usage.input_tokens if self._usage else 0,
            output_tokens=self._usage.output_tokens if self._usage else 0,
        )

    async def _finish(self, reply: ModelReply) -> None:
        await self._store(
            state="finished",
            result=as_stored(reply),
            usage=self._tokens(),
            model=self._facts("finished"),
        )

    async def _finish_failed(self, error: ModelFailed) -> None:
        side = "finished" if self._finished else "unknown"
        await self._store(
            state="failed",
            error={"code": error.code, "message": error.message, "retryable": error.retryable},
            usage=self._tokens(),
            model=self._facts(side),
            reason="error",
        )

    async def _abandon(self, reason: CancelReason) -> None:
        """The stream is closed; what was heard stays. A lost or leaving claim leaves the step to the next one."""
        if reason is CancelReason.LOST:
            return
        if reason is CancelReason.DRAIN:
            await self._flush()
            return
        await self._store(
            state="abandoned",
            error={"code": "stopped", "message": "The run was stopped.", "provider_side": "stopped"},
            model=self._facts("stopped"),
            reason="stop",
        )

    async def _store(self, **how: Any) -> None:
        claim, step_id = self._claim, self._begun.step_id
        await self._flush()

        async def landed() -> Done | None:
            return Done(None) if await claim.fetch(STEP_CLOSED, step=step_id) else None

        answer = await claim.decide(
            lambda: finish_step(run_id=claim.origin.run_id, fence=claim.held.fence, step_id=step_id, **how),
            landed=landed,
        )
        if isinstance(answer, Lost):
            claim.lost()

    async def _flush(self) -> None:
        """What was heard is stored before the text's end is."""
        try:
            await self._claim.held.outlet.flush()
        except OutletClosed:
            self._claim.lost()

    def _tokens(self) -> dict[str, int] | None:
        if self._usage is None:
            return None
        return {"input_tokens": self._usage.input_tokens, "output_tokens": self._usage.output_tokens}

    def _facts(self, provider_side: str) -> dict[str, Any]:
        done = self._finished
        return {
            "provider": done.provider if done else self._provider.name,
            "model": done.model if done else self._ask.model,
            "request_id": done.request_id if done else None,
            "stop_reason": done.stop_reason if done else None,
            "provider_side": provider_side,
        }
