"""Structured logs: one JSON object a line with run, attempt, step, fence, worker and request id where known.

Code logs through the standard library (`logger.info("run.claimed", extra=...)`) or structlog; both pass the
same chain. Context that belongs to a request or a run is bound with `structlog.contextvars`.
"""

import logging.config
from typing import Any

import structlog

# Without local variables: they hold tokens, headers and payloads.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def logging_config(*, json_lines: bool, level: str) -> dict[str, Any]:
    """Build the dictConfig of every Outlive process, and apply it: structlog and logging share it.

    Args: json_lines: one JSON object a line, else a human layout; level: of our own and third-party loggers.
    """
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    render: list[Any] = (
        [_TRACEBACKS, structlog.processors.JSONRenderer()]
        if json_lines
        # Not the default of rich: it renders all locals under the lock that every thread logs through (60 s measured).
        else [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]
    )
    config: dict[str, Any] = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "outlive": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": shared,
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "outlive"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # An access line per long-polled page says nothing; RQ's own INFO lines repeat ours.
            "daphne": {"level": "WARNING"},
            "django.channels.server": {"level": "WARNING"},
            "rq": {"level": "WARNING", "propagate": True},
            "rq.worker": {"level": "WARNING", "handlers": [], "propagate": True},
            "httpx": {"level": "WARNING"},
        },
    }
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(config)
    return config
