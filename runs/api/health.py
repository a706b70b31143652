"""Two questions of an orchestrator: does the process turn, and can it do its work?"""

import logging

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from runs.api.answers import json_answer

logger = logging.getLogger(__name__)
PROBE_SECONDS = 2.0  # an orchestrator asks each few seconds; a slower answer is a wrong one


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer 200 while the process turns; it asks nobody else, so that an outage of the database restarts nothing."""
    return json_answer({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer 200 when the database and Redis answer, else 503 with what does not."""
    parts = {"database": _is_database_up(), "redis": _is_redis_up()}
    is_ready = all(parts.values())
    body = {
        "status": "ok" if is_ready else "unavailable",
        "parts": {name: "ok" if is_up else "unreachable" for name, is_up in parts.items()},
    }
    return json_answer(body, status=200 if is_ready else 503)


def _is_database_up() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
    except DatabaseError as error:
        logger.warning("health.database_down", extra={"reason": str(error)})
        return False
    return True


def _is_redis_up() -> bool:
    client = redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=PROBE_SECONDS, socket_connect_timeout=PROBE_SECONDS
    )
    try:
        client.ping()
    except redis.RedisError as error:
        logger.warning("health.redis_down", extra={"reason": str(error)})
        return False
    finally:
        client.close()
    return True
