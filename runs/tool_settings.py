"""The settings that tools may see, by name, from the environment. Nothing else of it reaches a tool."""

import os
from collections.abc import Mapping

NAMES = (
    "TARGET_URL",
    "SMTP_HOST",
    "SMTP_PORT",
    "SMTP_FROM",
    "SMTP_USER",
    "SMTP_PASSWORD",
    "SMTP_TLS",
    "MAIL_LOOKUP_URL",
    "FETCH_ALLOW_PRIVATE",
    "COMMAND_ENV_ALLOW",
)


def tool_settings() -> Mapping[str, str]:
    """Return the settings that are set, as plain text."""
    return {name: os.environ[name] for name in NAMES if os.environ.get(name)}
