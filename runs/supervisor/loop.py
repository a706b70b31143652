"""The supervisor's loop: sweep, verify, sleep; survive a database that is away."""

import logging
import signal
import threading
from functools import partial
from typing import Any

from django.db import Error, close_old_connections

from runs.agents.registry import load_agents
from runs.conf import limits
from runs.supervisor.behind import Behind
from runs.supervisor.compensating import compensate_once
from runs.supervisor.keeping import keep_once, tidy_once
from runs.supervisor.sweeps import sweep_once
from runs.supervisor.terminals import end_left_terminals
from runs.supervisor.verification import verify_once

logger = logging.getLogger(__name__)
MAX_PAUSE_SECONDS = 5.0
TIDY_SECONDS = 600.0  # each look reads the rows of all runs and checkpoints


def run_forever() -> None:
    """Sweep each `sweep_seconds` until SIGTERM or SIGINT; the sweep that is under way is finished first."""
    load_agents()  # and with them the tools, whose targets are asked
    stop = threading.Event()

    def ask_to_stop(number: int, frame: Any) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    sweep_seconds = limits().sweep_seconds
    beside = (  # these wait for targets, or read much
        ("verifier", partial(verify_once, Behind()), sweep_seconds),
        ("compensator", partial(compensate_once, Behind()), sweep_seconds),
        ("terminals", end_left_terminals, limits().keep_seconds),
        ("keeper", keep_once, limits().keep_seconds),
        ("tidier", tidy_once, TIDY_SECONDS),
    )
    for name, work, seconds in beside:
        threading.Thread(target=_repeat, args=(work, stop, seconds), name=name, daemon=True).start()
    logger.info("supervisor.started")
    _repeat(partial(sweep_once, Behind()), stop, sweep_seconds)
    logger.info("supervisor.stopped")


def _repeat(work: Any, stop: threading.Event, seconds: float) -> None:
    pause = seconds
    while not stop.is_set():
        try:
            close_old_connections()
            work()
            pause = seconds
        except Error as error:
            pause = max(seconds, min(MAX_PAUSE_SECONDS, pause * 2))
            logger.warning("supervisor.database_away", extra={"error": repr(error), "next_try_seconds": pause})
        except Exception:  # one bad row must not end the only process that looks after all others
            pause = max(seconds, MAX_PAUSE_SECONDS)
            logger.exception("supervisor.sweep_failed")
        stop.wait(pause)
