"""Which server to talk to, and with which token: the command line, else the environment, else this checkout's stack."""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runs.cli.problems import Usage

DEFAULT_BASE_URL = "http://127.0.0.1:8000"
CHECKOUT = Path(__file__).resolve().parent.parent.parent
NEXT_MOVE = "Set OUTLIVE_TOKEN (or --token), or start a local stack with `make up`."


@dataclass(frozen=True, slots=True)
class Target:
    """A server and the right to talk to it."""

    base_url: str
    token: str


def read_target(
    *, base_url: str | None, token: str | None, environ: Mapping[str, str] = os.environ, checkout: Path = CHECKOUT
) -> Target:
    """Choose the server.

    Each of the two comes from the command line, else OUTLIVE_BASE_URL / OUTLIVE_TOKEN, else
    `.state/client.json`, which `make up` writes. The file's token is used for the file's own server only: it is
    never sent to another address.
    Raises: Usage when there is no token, or the file cannot be trusted.
    """
    chosen_url = base_url or environ.get("OUTLIVE_BASE_URL")
    chosen_token = token or environ.get("OUTLIVE_TOKEN")
    if chosen_token is None:
        stored = _read_file(checkout / ".state" / "client.json")
        if stored is not None and (chosen_url is None or chosen_url.rstrip("/") == stored.base_url):
            return stored
        raise Usage(f"There is no token for {chosen_url or 'a server'}. {NEXT_MOVE}", code="no_token")
    if chosen_url is None:
        stored = _read_file(checkout / ".state" / "client.json")
        chosen_url = stored.base_url if stored is not None else DEFAULT_BASE_URL
    return Target(_check_url(chosen_url), _check_token(chosen_token))


def _read_file(path: Path) -> Target | None:
    try:
        with path.open(encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if status.st_uid not in (os.getuid(), 0) or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise Usage(f"{path} can be read or written by others, so it is not used: chmod 600 it.")
            content = json.load(file)
        return Target(_check_url(str(content["base_url"])), _check_token(str(content["token"])))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise Usage(f"{path} cannot be read ({type(error).__name__}). `make up` writes it anew.") from None


def _check_url(url: str) -> str:
    if not url.startswith(("http://", "https://")) or any(c.isspace() or ord(c) < 32 for c in url):
        raise Usage(f"{url[:100]!r} is no address of a server; it looks like {DEFAULT_BASE_URL}.")
    return url.rstrip("/")


def _check_token(token: str) -> str:
    if not token or not token.isascii() or any(c.isspace() or ord(c) < 33 for c in token):
        raise Usage("The token is empty or has characters that no token has.")
    return token
