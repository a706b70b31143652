"""What a worker process is called: on its leases, in the ledger, in its log lines."""

import os
import secrets
import socket


def worker_name(suffix: str | None = None, *, pid: int | None = None) -> str:
    """Return host:pid:suffix. The suffix tells apart two processes that had the same pid one after the other."""
    return f"{socket.gethostname()[:60]}:{pid or os.getpid()}:{suffix or secrets.token_hex(3)}"
