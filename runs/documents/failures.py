"""Why a file could not be read, as one sentence part for people: "<file name> <reason>". Pure."""


class Unreadable(Exception):
    """The file cannot be read. reason: continues the file's name, as in "is protected by a password"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
