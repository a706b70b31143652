"""`manage.py outlive_purge`: does at once what the supervisors do by and by, or says what that would be."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from runs.retention.planning import plan, policy
from runs.supervisor.keeping import keep_once, tidy_once

LINES = {
    "texts": "{deltas} deltas of {streams} streams to be joined; nothing of them is lost",
    "events": "{events} events of {streams} streams ({bytes} bytes) to be deleted by age; their last views stay",
    "oversize": "{streams} streams with too many events or bytes ({bytes_kept} bytes), whose oldest are to be deleted",
    "folders": "{folders} folders of runs on this machine to be deleted with all that is in them",
    "runs": "{runs} runs to be deleted whole",
    "held": "{runs} runs are held: nothing of them is deleted",
}


class Command(BaseCommand):
    """Apply retention now, or show what it would do."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --dry-run and --json."""
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
        parser.add_argument("--json", action="store_true", help="one JSON object on stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print what is due; without --dry-run do it, and print what is left."""
        report: dict[str, Any] = {"object": "purge", "dry_run": options["dry_run"], "policy": policy(), "due": plan()}
        if not options["dry_run"]:
            while keep_once() + tidy_once():
                pass
            report["left"] = plan()
        if options["json"]:
            self.stdout.write(json.dumps(report))
            return
        for title, counts in ((name, report[name]) for name in ("due", "left") if name in report):
            self.stdout.write(f"{title}:")
            for name, line in LINES.items():
                self.stdout.write(f"  {line.format(**counts[name])}")
