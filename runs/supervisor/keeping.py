"""Looking after what is kept: checkpoints first, then texts to be joined, then what is to be deleted.

Slow beside the sweep and never urgent, so it has a thread of its own. Each piece is one short transaction under the
lock of its stream's checkpoint, so any number of supervisors may do this at once.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from django.db import InterfaceError, OperationalError

from runs.errors import Busy
from runs.recordings import forget_recording, old_recordings
from runs.retention.checkpoints import due_streams, keep
from runs.retention.expiry import expire, expired_streams, oversize_streams, trim_to_size
from runs.retention.folders import clear, old_folders
from runs.retention.forgetting import forget, forgettable_runs
from runs.retention.joining import due_texts, join_next

logger = logging.getLogger(__name__)


def keep_once() -> int:
    """Do what is due; returns how many pieces something was done to.

    Raises: django.db.OperationalError, InterfaceError when the database is away.
    """
    done = _each("checkpoint", due_streams(), _keep)
    done += _each("joining", due_texts(), join_next)
    done += _each("expiry", expired_streams(), expire)
    return done


def tidy_once() -> int:
    """Delete what only a look at everything finds: what is above a size that was lowered; folders, runs, recordings.

    Returns how many pieces something was done to. Raises: as keep_once.
    """
    done = _each("size", oversize_streams(), trim_to_size)
    done += _each("folders", old_folders(), clear)  # as long as their runs are known
    done += _each("forgetting", forgettable_runs(), forget)
    return done + _each("recording", old_recordings(), forget_recording)


def _keep(stream_id: Any) -> bool:
    return keep(stream_id) | (trim_to_size(stream_id) > 0)


def _each(name: str, due: Iterable[Any], act: Callable[[Any], Any]) -> int:
    done = 0
    for one in due:
        try:
            done += bool(act(one))
        except Busy:
            continue  # the next look finds it again
        except (OperationalError, InterfaceError):
            raise
        except Exception:  # the edge of one stream: it must not keep the supervisor from the others
            logger.exception("keeping.failed", extra={"what": name, "which": str(one)[:200]})
    return done
