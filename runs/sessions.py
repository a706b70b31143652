"""Django's sessions in the database, for keys that can be its keys: a cookie may hold anything."""

from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import VALID_KEY_CHARS


class SessionStore(db.SessionStore):
    """A key with other characters is nobody's. PostgreSQL has no U+0000, so each page would be a 500 to it (seen)."""

    def __init__(self, session_key: str | None = None) -> None:
        is_ours = session_key is not None and set(session_key) <= set(VALID_KEY_CHARS)
        super().__init__(session_key if is_ours else None)
