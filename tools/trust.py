"""The certificates that HTTP clients trust, read once per process: reading them costs more than a small request."""

import ssl
from functools import cache

import httpx


@cache
def trust() -> ssl.SSLContext:
    """Return the context for `httpx.AsyncClient(verify=...)`."""
    return httpx.create_ssl_context(trust_env=False)
