"""Takes out of a terminal's output what a terminal would answer: that would be typed into the shell.

Of what was there before we came, and of all that a viewer sees, nobody waits for an answer of ours.
"""

import re

_QUERY = re.compile(
    rb"\x05"  # ENQ
    rb"|\x1bZ"  # DECID
    rb"|\x1b\[[?>=]?[0-9;]*[cn]"  # device attributes and status
    rb"|\x1b\[[0-9;]*x"  # DECREQTPARM
    rb"|\x1b\[\??[0-9;]*\$p"  # DECRQM
    rb"|\x1b\[>[0-9;]*q"  # XTVERSION
    rb"|\x1b\[\?u"  # the keyboard protocol
    rb"|\x1b\[(?:1[1-9]|2[01])(?:;[0-9;]*)?t"  # reports of the window
    rb"|\x1b\][0-9;]*;\?(?:;[^\x07\x1b]*)?(?:\x07|\x1b\\)"  # colours
    rb"|\x1bP[$+]q[^\x1b]*\x1b\\"  # DECRQSS, XTGETTCAP
    rb"|\x1b_G[^\x1b]*\x1b\\"  # graphics
)
# The end of a chunk that may be the beginning of one of these.
_BEGUN = re.compile(
    rb"\x1b(?:\[[?>=]?[0-9;]*\$?|\][0-9;]*(?:;\?[^\x07\x1b]*)?\x1b?|P(?:[$+](?:q[^\x1b]*\x1b?)?)?|_(?:G[^\x1b]*\x1b?)?)?\Z"
)
MOST_BEGUN = 4096


class Sieve:
    """One stream of output."""

    def __init__(self) -> None:
        self._begun = b""

    def take_out(self, data: bytes) -> bytes:
        """Give what may be written; the beginning of what may be a question is held back."""
        data = _QUERY.sub(b"", self._begun + data)
        begun = _BEGUN.search(data)
        at = begun.start() if begun is not None and len(data) - begun.start() <= MOST_BEGUN else len(data)
        self._begun = data[at:]
        return data[:at]

    def rest(self) -> bytes:
        """Give what was held back: from here on questions are answered."""
        rest, self._begun = self._begun, b""
        return rest
