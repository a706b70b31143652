"""From options to a command: the options that all have, which server is meant, and the exit code."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer

from runs.cli.problems import CliProblem, Unreachable
from runs.cli.settings import read_target

BaseUrl = Annotated[str | None, typer.Option("--base-url", help="Server; else OUTLIVE_BASE_URL, else this checkout's.")]
Token = Annotated[str | None, typer.Option("--token", help="API token; better: OUTLIVE_TOKEN.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines on stdout.")]


def do(
    name: str, as_json: bool, base_url: str | None, token: str | None, *, module: str = "commands", **arguments: Any
) -> None:
    """Run a command of a module of this package, and leave with its exit code."""
    try:
        target = read_target(base_url=base_url, token=token)
        # Not at the top: the HTTP client takes 0.2 s to import, and neither help nor a typing error needs it.
        command: Callable[..., int] = getattr(import_module(f"runs.cli.{module}"), name)
        code = command(target=target, as_json=as_json, **arguments)
    except CliProblem as problem:
        code = _say(problem, as_json)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        # Commands read answers as the API writes them; what another server says may be anything.
        why = f"{type(error).__name__}: {error}"[:120].encode("ascii", "backslashreplace").decode()
        said = f"{target.base_url} did not answer as Outlive does ({why!r}). Is the address right?"
        code = _say(Unreachable(said, code="no_outlive"), as_json)
    except KeyboardInterrupt:
        typer.echo("outlive: interrupted before anything was followed.", err=True)
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `outlive run list | head` is no error
        code = 0
    raise typer.Exit(code)


def _say(problem: CliProblem, as_json: bool) -> int:
    if as_json:
        import_module("runs.cli.output").open_output(as_json=True).row(
            {"object": "error", "code": problem.code, "message": problem.message}, ""
        )
    typer.echo(f"outlive: {problem.message}", err=True)
    return problem.exit_code
