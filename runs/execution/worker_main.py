"""One worker process: `python -m runs.execution.worker_main`. `manage.py outlive_workers` starts and watches them."""

import argparse
import ctypes
import os
import signal
import sys
from uuid import UUID

import django

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Let the kernel kill us when the parent dies: nobody else would report our end (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            raise SystemExit("The parent is gone.")


def main() -> None:
    """Work until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suffix", help="the last part of the worker's name")
    parser.add_argument("--queue", default="default")
    parser.add_argument("--run", type=UUID, help="carry this run alone, and end")
    parser.add_argument("--parent", type=int, help="die with this process")
    arguments = parser.parse_args()
    if arguments.parent is not None:
        die_with_parent(arguments.parent)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    if arguments.run is not None:
        from runs.execution.alone import carry_alone

        carry_alone(arguments.run, suffix=arguments.suffix)
        return
    from runs.execution.serve import serve

    serve(queue_name=arguments.queue, suffix=arguments.suffix)


if __name__ == "__main__":
    main()
