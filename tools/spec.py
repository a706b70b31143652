"""A tool as the executor sees it: checked arguments in, one receipt out."""

import asyncio
import dataclasses
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from tools import parameters
from tools.call import LookUpCall, ToolCall
from tools.effects import JSON, Effect, LookUp, Outcome, Receipt
from tools.errors import OutcomeUnknown, PermitVoid, ToolError
from tools.plain_json import clean_json, clean_text
from tools.processes.blocking import call_blocking
from tools.retry import Retry
from tools.scope import Scope, boottime

logger = logging.getLogger(__name__)

type LookUpFunction = Callable[[LookUpCall], Awaitable[LookUp]]
type AdoptFunction = Callable[[ToolCall, Mapping[str, Any]], Awaitable[Receipt | None]]
type CompensateFunction = Callable[[ToolCall, Mapping[str, Any], Receipt], Awaitable[Receipt]]

REDACTED = "[redacted]"


@dataclass(frozen=True, eq=False)
class ToolSpec:
    """A registered tool. Made by `@tool`; `fn` is the plain function.

    timeout_seconds: the longest a call takes. request_timeout_seconds: the longest a request of it may be under way;
    target_bound_seconds: how long the target may still work on it after that; both make the horizon of RULES H6.
    blocking: `fn` is synchronous and runs in a child process. process: the call is a process tree, so "process tree
    empty" settles it. redact: argument names that events and pages do not show. look_up_setting: the setting without
    which `look_up` cannot be used. retry: how often a call that was refused for now is tried, under one operation key.
    adopt: waits for the end of a call that an older claim has begun and that lives on without it, and returns its
    receipt, or None where nobody can tell. It begins nothing, so its permit is none.
    """

    name: str
    fn: Callable[..., Any]
    effect: Effect
    description: str
    parameters: type[BaseModel]
    look_up: LookUpFunction | None
    compensate: CompensateFunction | None
    timeout_seconds: float
    request_timeout_seconds: float
    target_bound_seconds: float
    blocking: bool
    process: bool
    redact: frozenset[str]
    look_up_setting: str | None
    retry: Retry
    call_parameter: str | None
    adopt: AdoptFunction | None = None

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, JSON]:
        """Return the arguments as canonical JSON with defaults filled in.

        Stable: validating the result again gives the same, so operation keys may be made from it.
        Raises: ToolArgumentsInvalid with one problem per field.
        """
        return parameters.as_json(parameters.parse(self.parameters, arguments, tool=self.name))

    def redacted(self, arguments: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return the arguments as events may show them."""
        return {name: REDACTED if name in self.redact else value for name, value in arguments.items()}

    def can_look_up(self, settings: Mapping[str, str]) -> bool:
        """True when asking the target makes sense under these settings."""
        return self.look_up is not None and (self.look_up_setting is None or bool(settings.get(self.look_up_setting)))

    async def call(self, call: ToolCall, arguments: Mapping[str, Any]) -> Receipt:
        """Run the tool under its permit and return what is known afterwards.

        Every ordinary error becomes a receipt: ToolError and whatever comes before the permit is used = FAILED;
        anything else after it = UNKNOWN (FAILED for a read, which leaves nothing behind). A cancelled scope drops a
        read at once; a write goes on until its time is over or the executor cancels this coroutine, which then has
        to judge by `call.permit.is_used`. A process stops its own tree.
        Raises: ScopeCancelled (reads only), asyncio.CancelledError; ToolArgumentsInvalid never (it is a receipt).
        """
        return await self._judged(call, lambda bounded: self._checked(bounded, arguments))

    async def undo(self, call: ToolCall, arguments: Mapping[str, Any], receipt: Receipt) -> Receipt:
        """Compensate what `receipt` names, under the permit and key of the compensation; errors as in `call`.

        Raises: asyncio.CancelledError.
        """
        compensate = self.compensate
        assert compensate is not None  # asked for only where the tool offers it
        return await self._judged(call, lambda bounded: self._bounded(bounded, compensate(bounded, arguments, receipt)))

    @staticmethod
    async def _bounded(call: ToolCall, work: Awaitable[Receipt]) -> Receipt:
        left = call.remaining()
        async with asyncio.timeout(None if math.isinf(left) else left):
            return await work

    async def _checked(self, call: ToolCall, arguments: Mapping[str, Any]) -> object:
        return await self._run(call, parameters.parse(self.parameters, arguments, tool=self.name))

    async def _judged(self, call: ToolCall, work: Callable[[ToolCall], Awaitable[object]]) -> Receipt:
        """Do the work within the tool's own time, and make a receipt of whatever comes of it."""
        own_end = boottime() + self.timeout_seconds
        call = dataclasses.replace(call, deadline=own_end if call.deadline is None else min(own_end, call.deadline))
        try:
            return _as_receipt(await work(call))
        except PermitVoid as error:
            # A second use is a bug of the adapter, and its first use may have had an effect.
            if call.permit.is_used:
                return self._unclear(call, str(error), error.code)
            return Receipt(Outcome.FAILED, proof="nothing was sent", error=str(error), code=error.code)
        except ToolError as error:
            return Receipt(
                Outcome.FAILED,
                proof="refused",
                retryable=error.retryable,
                error=clean_text(error.message),
                code=error.code,
            )
        except OutcomeUnknown as error:
            return self._unclear(call, error.message, error.code)
        except TimeoutError as error:
            return self._unclear(call, str(error) or "The call ran out of time.", "timeout")
        except Exception as error:
            logger.exception("tool.raised", extra={"tool": self.name, "run_id": call.run_id})
            return self._unclear(call, f"{type(error).__name__}: {error}", "tool_raised")

    async def _run(self, call: ToolCall, checked: BaseModel) -> object:
        if self.process:
            return await self.fn(**self._keywords(call, checked))
        if self.effect is Effect.READ:
            return await call.scope.bound(self._timed(call, checked))
        return await self._timed(call, checked)

    async def _timed(self, call: ToolCall, checked: BaseModel) -> object:
        left = call.remaining()
        async with asyncio.timeout(None if math.isinf(left) else left):
            if self.blocking:
                call.open()
                return await call_blocking(
                    call.processes,
                    self.fn,
                    parameters.as_json(checked),
                    key=call.process_key,
                    cwd=call.workspace,
                    settings=call.settings,
                    scope=Scope(deadline=call.deadline),
                )
            if self.call_parameter is None:
                call.open()
            return await self.fn(**self._keywords(call, checked))

    def _keywords(self, call: ToolCall, checked: BaseModel) -> dict[str, Any]:
        keywords = parameters.as_keywords(checked)
        if self.call_parameter is not None:
            keywords[self.call_parameter] = call
        return keywords

    def _unclear(self, call: ToolCall, message: str, code: str) -> Receipt:
        begun = call.permit.is_used and self.effect is not Effect.READ
        return Receipt(
            Outcome.UNKNOWN if begun else Outcome.FAILED,
            proof="no answer" if begun else "nothing was sent",
            retryable=code == "timeout" and not begun,
            error=clean_text(message),
            code=code,
        )


def _as_receipt(result: object) -> Receipt:
    if isinstance(result, Receipt):
        return dataclasses.replace(
            result, value=clean_json(result.value), error=None if result.error is None else clean_text(result.error)
        )
    return Receipt(Outcome.SUCCEEDED, value=clean_json(result), proof="returned")
