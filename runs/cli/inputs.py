"""The input of a run from the command line: `name=text`, `name:=json`, or a whole JSON file."""

import json
import sys
from pathlib import Path
from typing import Any

from runs.cli.problems import Usage

MAX_FILE_BYTES = 8 << 20


def read_input(pairs: list[str], json_file: str | None) -> dict[str, Any]:
    """Build the input: the JSON file first, then the pairs on top of it.

    Raises: Usage naming the pair or the file.
    """
    value = _read_json_file(json_file) if json_file is not None else {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name.rstrip(":"):
            raise Usage(f"--input {pair[:60]!r}: write name=text, or name:=json for a number, a list or true.")
        if name.endswith(":"):
            value[name[:-1]] = _parse(text, f"--input {name}=")
        else:
            value[name] = text
    return value


def read_answer(text: str) -> Any:
    """Read an answer: JSON where it is JSON (`true`, `5`, `{"ok": true}`), else the text itself."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _read_json_file(name: str) -> dict[str, Any]:
    try:
        raw = sys.stdin.buffer.read(MAX_FILE_BYTES + 1) if name == "-" else _read_some(Path(name))
    except OSError as error:
        raise Usage(f"--input-json {name}: {error.strerror or error}. Nothing was started.") from None
    if len(raw) > MAX_FILE_BYTES:
        raise Usage(f"--input-json {name}: larger than {MAX_FILE_BYTES} bytes. Nothing was started.")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Usage(f"--input-json {name}: is not UTF-8. Nothing was started.") from None
    value = _parse(text, f"--input-json {name}")
    if not isinstance(value, dict):
        raise Usage(f"--input-json {name}: the input of a run is a JSON object. Nothing was started.")
    return value


def _read_some(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def _parse(text: str, place: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Usage(f"{place}: is not valid JSON ({error}). Nothing was started.") from None


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
