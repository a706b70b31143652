"""`manage.py outlive_supervisor`: acts on overdue rows. Start as many as you like; none is special."""

from typing import Any

from django.core.management.base import BaseCommand

from runs.supervisor.loop import run_forever


class Command(BaseCommand):
    """Run the supervisor until SIGTERM."""

    help = __doc__

    def handle(self, *args: Any, **options: Any) -> None:
        """Sweep for ever."""
        run_forever()
