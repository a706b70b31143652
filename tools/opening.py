"""See at import that a tool with an outside effect, which takes a ToolCall, can use its permit.

What is cut before `call.open()` counts as "nothing was sent" (tools/tool.py). An author who forgot the call would have
a write that went out called "did not happen", and the next attempt would send it again.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable


def may_open(fn: Callable[..., object], parameter: str) -> bool:
    """Say whether `fn` names `<parameter>.open` or hands the ToolCall on to what may; True where no source is there."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, TypeError, SyntaxError):
        return True
    if not any(
        isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef) and node.name == fn.__name__ for node in ast.walk(tree)
    ):
        return True  # made by exec: the source that is found is another one's
    # Only what is read off the ToolCall is seen to be harmless; a ToolCall that is given away may be opened there.
    read = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is(node.value, parameter)]
    if any(node.attr == "open" for node in read):
        return True
    named = [node for node in ast.walk(tree) if _is(node, parameter)]
    return len(named) > len(read)


def _is(node: ast.AST, parameter: str) -> bool:
    return isinstance(node, ast.Name) and node.id == parameter
