"""`outlive`: start, list, show, follow, stop and answer runs from a terminal. No Django here: it starts fast."""

from runs.cli.app import main

__all__ = ["main"]
