"""What has to be done once before the programs start: tables, static files, the demo user. `-m config.stack.prepare`.

One process for all, because loading Django takes longer than the work. The last line of the output is the JSON
object of `outlive_bootstrap`.
"""

import os

import django
from django.core.management import call_command


def main() -> None:
    """Run the three commands in order; the first failure ends it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    call_command("migrate", interactive=False, verbosity=1)
    call_command("collectstatic", interactive=False, verbosity=0)
    call_command("outlive_bootstrap")


if __name__ == "__main__":
    main()
