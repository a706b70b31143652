"""The `@tool` decorator: how an author says what a function does outside.

    @tool(effect="read")
    async def fetch_rate(currency: str) -> float: ...

    @tool(effect="write", look_up=None)            # said aloud: nobody can find out afterwards
    async def send_fax(call: ToolCall, number: str, text: str) -> Receipt:
        async with connect() as line:
            call.open()                            # right before the first byte
            ...

A function without a ToolCall has its permit used just before it starts. One with a ToolCall uses it itself: what it
raises before `call.open()` counts as "nothing was sent", so an effect before `call.open()` breaks the promise, and a
function that cannot call it is refused at import (tools/opening.py).
A plain `def` is blocking: it runs in a child process of its own, so it takes JSON-able arguments and no ToolCall, and
must be importable by its module and name.
"""

import inspect
import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final

from tools import opening, parameters, registry
from tools.call import LookUpCall, ToolCall
from tools.effects import JSON, Effect, LookUp, Outcome, Receipt
from tools.errors import (
    OutcomeUnknown,
    PermitExpired,
    PermitUsed,
    ToolArgumentsInvalid,
    ToolError,
)
from tools.permit import Permit
from tools.retry import Retry
from tools.spec import AdoptFunction, CompensateFunction, LookUpFunction, ToolSpec

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING
ONCE: Final = Retry(tries=1)


def tool(
    *,
    effect: Effect | str = Effect.WRITE,
    look_up: LookUpFunction | _Missing | None = MISSING,
    compensate: CompensateFunction | None = None,
    timeout_seconds: float = 30.0,
    request_timeout_seconds: float | None = None,
    target_bound_seconds: float = 0.0,
    name: str | None = None,
    process: bool = False,
    redact: Iterable[str] = (),
    look_up_setting: str | None = None,
    retry: Retry = ONCE,
    adopt: AdoptFunction | None = None,
) -> Callable[[Callable[..., Any]], ToolSpec]:
    """Make a function a registered tool; the decorated name is then the ToolSpec.

    The docstring's text becomes the description that models read. See ToolSpec for what the arguments mean.
    Raises TypeError or ValueError at import where the declaration contradicts itself.
    """
    effect = Effect(effect)

    def decorate(fn: Callable[..., Any]) -> ToolSpec:
        tool_name = name or fn.__name__
        _check_declaration(tool_name, fn, effect, look_up, compensate, process)
        model = parameters.build_parameters(fn, tool=tool_name)
        unknown = set(redact) - set(parameters.names(model))
        if unknown:
            raise ValueError(f"Tool {tool_name}: redact names no parameter: {', '.join(sorted(unknown))}.")
        spec = ToolSpec(
            name=tool_name,
            fn=fn,
            effect=effect,
            description=inspect.cleandoc(fn.__doc__ or ""),
            parameters=model,
            look_up=None if look_up is MISSING else look_up,
            compensate=compensate,
            timeout_seconds=timeout_seconds,
            request_timeout_seconds=timeout_seconds if request_timeout_seconds is None else request_timeout_seconds,
            target_bound_seconds=target_bound_seconds,
            blocking=not inspect.iscoroutinefunction(fn),
            process=process,
            redact=frozenset(redact),
            look_up_setting=look_up_setting,
            retry=retry,
            call_parameter=parameters.takes_call(fn),
            adopt=adopt,
        )
        registry.register(spec)
        return spec

    return decorate


def _check_declaration(
    tool_name: str,
    fn: Callable[..., Any],
    effect: Effect,
    look_up: LookUpFunction | _Missing | None,
    compensate: CompensateFunction | None,
    process: bool,
) -> None:
    if not _NAME.fullmatch(tool_name):
        raise ValueError(f"Tool name {tool_name!r} must be lower case letters, digits and _, at most 64.")
    if not fn.__doc__:
        raise TypeError(f"Tool {tool_name} needs a docstring: models choose by it.")
    if effect is Effect.WRITE and look_up is MISSING:
        raise TypeError(f"Tool {tool_name} writes: say look_up=<function>, or look_up=None aloud.")
    if effect is Effect.READ and (look_up not in (MISSING, None) or compensate is not None):
        raise TypeError(f"Tool {tool_name} only reads: there is nothing to look up or to compensate.")
    if inspect.iscoroutinefunction(fn):
        if process and parameters.takes_call(fn) is None:
            raise TypeError(f"Tool {tool_name} is a process: it needs a ToolCall to start one.")
        call = parameters.takes_call(fn)
        if effect is not Effect.READ and call is not None and not opening.may_open(fn, call):
            raise TypeError(
                f"Tool {tool_name} has an effect and takes a ToolCall, but never calls {call}.open(): call it right "
                f"before the first byte goes out, or what is cut counts as never sent. Or take no ToolCall."
            )
        return
    if parameters.takes_call(fn) is not None or process:
        raise TypeError(f"Tool {tool_name} is blocking and runs in another process: it cannot take a ToolCall.")
    if "<locals>" in fn.__qualname__ or fn.__module__ == "__main__":
        raise TypeError(f"Tool {tool_name} is blocking: it must be importable by its module and name.")


__all__ = [
    "JSON",
    "MISSING",
    "Effect",
    "LookUp",
    "LookUpCall",
    "Outcome",
    "OutcomeUnknown",
    "Permit",
    "PermitExpired",
    "PermitUsed",
    "Receipt",
    "Retry",
    "ToolArgumentsInvalid",
    "ToolCall",
    "ToolError",
    "ToolSpec",
    "tool",
]
