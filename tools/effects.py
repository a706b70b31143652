"""The words for what a call does outside and what is known about it afterwards."""

from dataclasses import dataclass
from enum import StrEnum

type JSON = dict[str, JSON] | list[JSON] | str | int | float | bool | None


class Effect(StrEnum):
    """What a tool may change. READ: repeat or drop freely. IDEMPOTENT: the target takes our operation key."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    WRITE = "write"


class Outcome(StrEnum):
    """What is known when a call is over. FAILED means refused for certain, never "probably not"."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Receipt:
    """The evidence of one call.

    value: what the agent gets. proof: in a few words what the outcome rests on ("http 201", "look-up",
    "process tree empty"). external_id: the target's own name of the effect. retryable: only with FAILED.
    error: text for people; code: stable word for programs, both None on success.
    """

    outcome: Outcome
    value: JSON = None
    proof: str = ""
    external_id: str | None = None
    retryable: bool = False
    error: str | None = None
    code: str | None = None


@dataclass(frozen=True)
class LookUp:
    """What the target says about one operation key.

    found: True, False, or None when it could not tell. sealed: the target will refuse this key from now on, so
    `found=False` is final (RULES H6). receipt: set when found. raw: the answer as stored evidence.
    """

    found: bool | None
    receipt: Receipt | None = None
    raw: JSON = None
    sealed: bool = False
