"""Who is calling: a browser with a session and its page's CSRF token, or a program with a bearer token."""

from django.http import HttpRequest
from django.utils.translation import gettext as _
from ninja.security import HttpBearer
from ninja.security.session import SessionAuth
from ninja.utils import check_csrf

from runs.access import Actor, actor_for, actor_for_token
from runs.api.problems import CsrfFailed, NotInWorkspace, NotSignedIn


class BearerToken(HttpBearer):
    """`Authorization: Bearer outlive_…`. A bad token is refused; it never falls back to the session's cookie."""

    def __call__(self, request: HttpRequest) -> Actor | None:
        """Say who calls, None when there is no Authorization header at all.

        Raises: NotSignedIn.
        """
        header = request.headers.get("Authorization")
        if header is None:
            return None
        scheme, _space, token = header.partition(" ")
        if scheme.lower() != "bearer":
            raise NotSignedIn(_("Send the token as `Authorization: Bearer …`."), param="Authorization")
        return self.authenticate(request, token.strip())

    def authenticate(self, request: HttpRequest, token: str) -> Actor:
        """Look the token up.

        Raises: NotSignedIn for every kind of bad token alike; the answer does not say which it was.
        """
        actor = actor_for_token(token)
        if actor is None:
            raise NotSignedIn(
                _("This token is unknown, expired or revoked, or its owner is not active. Make a new one."),
                param="Authorization",
                code="invalid_token",
            )
        return actor


class BrowserSession(SessionAuth):
    """The session of our own pages. Whatever is not a plain read needs the CSRF token as well."""

    def __call__(self, request: HttpRequest) -> Actor | None:
        """Say who calls, None when nobody is signed in.

        Raises: CsrfFailed, NotInWorkspace.
        """
        # Before the CSRF check: that one reads a form's body, and strangers' uploads are not worth reading.
        if not request.user.is_authenticated:
            return None
        if check_csrf(request) is not None:
            raise CsrfFailed(_("Reload the page and try again: its security token is missing or too old."))
        actor = actor_for(request.user)
        if actor is None:
            raise NotInWorkspace(_("You belong to no workspace. Ask an admin to add you to one."))
        return actor


BEARER, SESSION = BearerToken(), BrowserSession()
AUTHENTICATION = [BEARER, SESSION]


def identify(request: HttpRequest) -> Actor | None:
    """Do what the API's own authentication does, for a view that is no API call (the docs pages).

    Raises: NotSignedIn, NotInWorkspace, CsrfFailed.
    """
    return BEARER(request) or SESSION(request)


def actor_of(request: HttpRequest) -> Actor:
    """Say who called; only for views behind AUTHENTICATION."""
    actor = request.auth  # type: ignore[attr-defined]
    assert isinstance(actor, Actor)  # ninja sets it from the methods above before a view runs
    return actor
