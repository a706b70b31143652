"""The supervisor's loop: sweep, verify, sleep; survive a database that is away."""

import logging
import signal
import threading
from typing import Any

from django.db import Error, close_old_connections

from runs.conf import limits
from runs.supervisor.sweeps import sweep_once
from runs.supervisor.verification import verify_once

logger = logging.getLogger(__name__)
MAX_PAUSE_SECONDS = 5.0


def run_forever() -> None:
    """Sweep each `sweep_seconds` until SIGTERM or SIGINT; the sweep that is under way is finished first."""
    stop = threading.Event()

    def ask_to_stop(number: int, frame: Any) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    verifier = threading.Thread(target=_repeat, args=(verify_once, stop), name="verifier", daemon=True)
    verifier.start()
    logger.info("supervisor.started")
    _repeat(sweep_once, stop)
    logger.info("supervisor.stopped")


def _repeat(work: Any, stop: threading.Event) -> None:
    pause = limits().sweep_seconds
    while not stop.is_set():
        try:
            close_old_connections()
            work()
            pause = limits().sweep_seconds
        except Error as error:
            pause = min(MAX_PAUSE_SECONDS, pause * 2)
            logger.warning("supervisor.database_away", extra={"error": repr(error), "next_try_seconds": pause})
        except Exception:  # one bad row must not end the only process that looks after all others
            pause = MAX_PAUSE_SECONDS
            logger.exception("supervisor.sweep_failed")
        stop.wait(pause)
