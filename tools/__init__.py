"""Hands and voice of an agent run. Knows no Django. Authors of tools import from here."""

from tools.tool import (
    JSON,
    Effect,
    LookUp,
    LookUpCall,
    Outcome,
    OutcomeUnknown,
    Permit,
    PermitExpired,
    PermitUsed,
    Receipt,
    Retry,
    ToolArgumentsInvalid,
    ToolCall,
    ToolError,
    ToolSpec,
    tool,
)

__all__ = [
    "JSON",
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
