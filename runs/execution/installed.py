"""A worker of this installation, by its settings: one that carries many runs, or one alone."""

import os
from contextlib import AbstractAsyncContextManager

from django.conf import settings

from runs.database import conninfo
from runs.execution.worker_context import WorkerContext, open_worker
from runs.tool_settings import tool_settings
from runs.unprivileged import command_user, workspaces


def installed_worker(name: str, *, is_alone: bool) -> AbstractAsyncContextManager[WorkerContext]:
    """Make a worker; entering it opens it. Not inside of a loop.

    Args: is_alone: it carries one run and nothing beside it (RQ's forked job, a run that must not stand beside others).
    Raises: ToolError when commands have no user or no place on this machine.
    """
    user = command_user()
    return open_worker(
        name=name,
        dsn=conninfo(),
        redis_url=settings.REDIS_URL,
        env=os.environ,
        tool_settings=tool_settings(),
        workspaces=workspaces(user),
        proofs=settings.WORKSPACES / ".proofs",
        user=user,
        terminals=settings.TERMINALS,
        is_alone=is_alone,
    )
