"""The environment of commands: an allow-list, so that no secret of the worker reaches a command by accident."""

import os
from collections.abc import Mapping
from pathlib import Path

ALLOWED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
SETTING = "COMMAND_ENV_ALLOW"  # more names, separated by commas


def build_environment(
    settings: Mapping[str, str], *, home: Path, source: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return what a command may see: the allowed names of `source` (ours, if None), and HOME = its own folder."""
    source = os.environ if source is None else source
    named = (name.strip() for name in settings.get(SETTING, "").split(","))
    wanted = (*ALLOWED, *(name for name in named if name))
    environment = {name: source[name] for name in wanted if name in source}
    environment.setdefault("PATH", os.defpath)
    environment.setdefault("LANG", "C.UTF-8")
    return {**environment, "HOME": str(home)}
