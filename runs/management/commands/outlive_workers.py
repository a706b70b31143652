"""`manage.py outlive_workers`: the worker processes of this host, and the parent that waits for them."""

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from runs.execution.parent import Parent
from runs.unprivileged import command_user
from tools.errors import ToolError


class Command(BaseCommand):
    """Start workers, replace the dead, drain on SIGTERM."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --count and --queue."""
        default = int(os.environ.get("OUTLIVE_WORKERS", "0")) or min(4, os.cpu_count() or 1)
        parser.add_argument("--count", type=int, default=default, help="worker processes (each carries many runs)")
        parser.add_argument("--queue", default="default")

    def handle(self, *args: Any, **options: Any) -> None:
        """Look after the workers until SIGTERM. Raises: CommandError when the commands of tools have no user here."""
        try:
            command_user()
        except ToolError as error:
            raise CommandError(error.message) from None
        Parent(count=max(1, options["count"]), queue=options["queue"]).run()
