"""The child process of a blocking tool: `python -m tools.processes.call module:function`, JSON in and out.

stdin: the arguments. stdout: {"value"} or {"refused": {message, code, retryable}} or {"raised"}. What the function
itself prints goes to stderr, so that it cannot spoil the answer.
"""

import importlib
import json
import os
import sys
from functools import reduce
from typing import Any

from tools import parameters
from tools.errors import OutcomeUnknown, ToolError
from tools.plain_json import clean_json
from tools.spec import ToolSpec


def answer(place: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call the function at `module:qualified.name` and return what goes back."""
    module, _, path = place.partition(":")
    try:
        found = reduce(getattr, path.split("."), importlib.import_module(module))
        if isinstance(found, ToolSpec):
            checked = parameters.parse(found.parameters, arguments, tool=found.name)
            return {"value": clean_json(found.fn(**parameters.as_keywords(checked)))}
        if not callable(found):
            raise TypeError(f"{place} is no function")
        return {"value": clean_json(found(**arguments))}
    except ToolError as error:
        return {"refused": {"message": error.message, "code": error.code, "retryable": error.retryable}}
    except OutcomeUnknown as error:
        return {"unknown": error.message}
    except Exception as error:  # the edge of this process: the parent decides what it means
        sys.excepthook(type(error), error, error.__traceback__)
        return {"raised": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Read the arguments, call, write the answer."""
    arguments = json.load(sys.stdin)
    channel = os.dup(1)
    os.dup2(2, 1)
    text = json.dumps(answer(sys.argv[1], arguments))
    with os.fdopen(channel, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
