"""How the demo target misbehaves: which answers are late, lost or wrong, for which keys, how often.

    refuse              no effect; refused for certain
    fail_after_effect   the effect happens; the answer is an error
    drop_after_commit   the effect happens; the connection is reset
    never_answer        the effect happens; the connection stays open and silent
    delay_seconds       the effect happens; the answer comes that much later
    lookup_fails        the look-up by key answers 503 (effects are not touched)

Where several are on, the first in this order wins; a delay also delays the errors and the reset.
"""

from pydantic import BaseModel, ConfigDict, Field


class Switches(BaseModel):
    """The state of all switches.

    key_prefix: they apply only to keys that start with it; None = to all. times: to so many requests more, then all
    switches are off; None = until they are changed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    delay_seconds: float = Field(default=0, ge=0, le=3600)
    drop_after_commit: bool = False
    never_answer: bool = False
    fail_after_effect: bool = False
    refuse: bool = False
    lookup_fails: bool = False
    key_prefix: str | None = None
    times: int | None = Field(default=None, ge=1)

    @property
    def spoils_effects(self) -> bool:
        """Whether a request with an effect would be treated differently."""
        return bool(
            self.delay_seconds or self.drop_after_commit or self.never_answer or self.fail_after_effect or self.refuse
        )


GOOD = Switches()


class SwitchBoard:
    """The switches as they stand now. Memory only: a restarted target behaves well."""

    def __init__(self) -> None:
        self.now = GOOD

    def take(self, key: str, *, lookup: bool = False) -> Switches:
        """Return how to treat this request; it counts against `times` when a switch applies to it."""
        now = self.now
        concerned = now.lookup_fails if lookup else now.spoils_effects
        if not concerned or not key.startswith(now.key_prefix or ""):
            return GOOD
        if now.times is not None:
            self.now = now.model_copy(update={"times": now.times - 1}) if now.times > 1 else GOOD
        return now
