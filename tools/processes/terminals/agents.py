"""The agents at a terminal: claims that type whole lines, beside the people who type keys. stdlib only."""

from typing import TYPE_CHECKING, Any

from .. import kernel
from . import frames
from .attached import Attached
from .lines import Lines
from .typing_in import LATEST

if TYPE_CHECKING:
    from .ward import TerminalWard


class Agents:
    """The agents of one ward. A claim with a higher fence makes viewers of those before it, for good."""

    def __init__(self, ward: "TerminalWard") -> None:
        self._ward = ward
        self._fence = 0
        self.lines = Lines(ward.request.get("marks"))

    def come(self, one: Attached, fence: Any, line: Any) -> bool:
        """Let a claim type. False: one with a higher fence was here."""
        if not isinstance(fence, int) or fence < self._fence:
            return False
        if fence > self._fence:
            for other in self._ward.people.values():
                if other.role == "agent":
                    other.role = "viewer"
        self._fence, one.line = fence, line if isinstance(line, str) else None
        return True

    def tell(self, one: Attached) -> dict[str, Any]:
        """Say how the lines stand, and the one that an agent asks about."""
        return {"lines": self.lines.tell(one.line)}

    def see(self, data: bytes) -> None:
        """Look for marks in output that is about to be kept."""
        now, ward = kernel.boottime(), self._ward
        is_new, typing = self.lines.see(ward.ring.end, data, pilot=ward.pilot, now=now)
        self._put(typing)
        for one in ward.people.values() if is_new else ():
            if one.role == "agent":
                one.say(frames.NEWS, self.tell(one))

    def want(self, one: Attached, body: dict[str, Any]) -> None:
        """Have typed what an agent wants, and say what became of it. Raises: BadFrame."""
        ward = self._ward
        answer, typing = "shut", b""
        try:
            one.line = str(body["id"])
            if not ward.input.is_shut:
                now = kernel.boottime()
                answer, typing = self.lines.want(body, pilot=ward.pilot, offset=ward.ring.end, now=now)
        except (KeyError, TypeError, ValueError) as error:
            raise frames.BadFrame("no line") from error
        self._put(typing)
        one.say(frames.NEWS, {**self.tell(one), "answer": answer})

    def _put(self, data: bytes) -> None:
        """Have it go in whole: half a line would be another command."""
        if data:
            self._ward.input.take(self._ward.input.accepted, data, LATEST)
            self._ward.type_in()
