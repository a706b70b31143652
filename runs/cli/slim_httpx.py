"""httpx without its own command line, which would import click, pygments and rich's syntax: 0.3 s for nothing."""

import sys

sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # httpx takes the ImportError for "not installed"

import httpx  # noqa: E402
import httpx_sse  # noqa: E402

__all__ = ["httpx", "httpx_sse"]
