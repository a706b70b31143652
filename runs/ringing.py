"""Ringing bells and asking the queue, after a commit, from synchronous code. A failure is logged and forgotten.

Redis and RQ may lose, repeat or reorder: whoever needs certainty polls the rows (docs/LIFECYCLE.md, "Outbox").
"""

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

import django_rq
import redis
from django.conf import settings
from redis.client import Pipeline

from runs.decisions.core import Advance, Bell, Effect

logger = logging.getLogger(__name__)
ADVANCE = "runs.execution.jobs.advance_run"


@cache
def client() -> redis.Redis:
    """Return this process's Redis client; it fails fast, since nobody may wait for a doorbell."""
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1.0, socket_connect_timeout=1.0)


@cache
def queue() -> Any:
    """Return the queue, on the client above: django_rq makes a new one each time, a quarter of the cost of a create."""
    return django_rq.get_queue("default", connection=client())


def enqueue(run_id_hex: str, pipeline: Pipeline | None = None) -> None:
    """Put "advance this run" into the queue; repeated jobs are harmless, a claim decides.

    Raises: redis.RedisError when the queue cannot be reached; the outbox row stays then.
    """
    queue().enqueue_call(ADVANCE, args=(run_id_hex,), timeout=-1, result_ttl=0, failure_ttl=3600, pipeline=pipeline)


def ring_now(effects: Sequence[Effect]) -> None:
    """Do what a decision asked for after its commit, in one round trip: first the workers, then the readers."""
    pipeline = client().pipeline(transaction=False)
    try:
        for effect in effects:
            if isinstance(effect, Advance):
                enqueue(effect.run_id.hex, pipeline)
        for effect in effects:
            if isinstance(effect, Bell):
                pipeline.publish(effect.channel, effect.payload)
        pipeline.execute()
    except redis.RedisError as error:
        logger.warning("bell.lost", extra={"error": repr(error), "count": len(effects)})
