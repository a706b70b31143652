"""The operators' desk in Django's admin: everything can be read, nothing is changed but through the services."""

from runs.admin import identity, ledger, runs

__all__ = ["identity", "ledger", "runs"]
