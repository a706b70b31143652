"""The database backend (Django looks for it under this name)."""

import select

from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection that was not used for a while is looked at, not asked: to ask was a fifth of a small request."""

    def is_usable(self) -> bool:
        """Say whether the connection stands.

        A server that ended it has left something to be read, where nothing else is awaited between two statements.
        After an error, and where something is there, the server is asked.
        """
        raw = self.connection
        if raw is None or raw.closed:
            return False
        if not self.errors_occurred and not _has_something(raw.fileno()):
            return True
        return bool(super().is_usable())


def _has_something(descriptor: int) -> bool:
    looking = select.poll()  # not select(): a web process has thousands of descriptors
    looking.register(descriptor, select.POLLIN)
    return bool(looking.poll(0))
