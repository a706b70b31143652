"""The commands and their options. What they do stands in runs/cli/commands.py, loaded only when one is run."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer

from runs.cli.problems import CliProblem
from runs.cli.settings import read_target

HELP = """Runs whose life does not hang on a connection.

Exit codes of start, follow and stop --wait: 0 completed, 1 failed, 2 usage, 3 cancelled, 4 needs reconciliation,
5 unreachable. Ctrl-C while following detaches; it stops nothing."""

# Help without rich: 0.2 s less before the first line.
app = typer.Typer(help=HELP, no_args_is_help=True, add_completion=False, rich_markup_mode=None)
run_app = typer.Typer(help="Start, list, show, follow, stop and answer runs.", no_args_is_help=True)
documents_app = typer.Typer(help="Upload and list documents.", no_args_is_help=True)
app.add_typer(run_app, name="run")
app.add_typer(documents_app, name="documents")

BaseUrl = Annotated[str | None, typer.Option("--base-url", help="Server; else OUTLIVE_BASE_URL, else this checkout's.")]
Token = Annotated[str | None, typer.Option("--token", help="API token; better: OUTLIVE_TOKEN.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines on stdout.")]
RunId = Annotated[str, typer.Argument(metavar="ID", help="run_…")]


def main() -> None:
    """Run the command line and end the process with its exit code."""
    app(prog_name="outlive")


@run_app.command("start")
def run_start(
    agent: Annotated[str, typer.Argument(metavar="AGENT")],
    inputs: Annotated[
        list[str] | None, typer.Option("--input", metavar="NAME=TEXT", help="NAME=TEXT, or NAME:=JSON; repeat it.")
    ] = None,
    input_json: Annotated[
        str | None, typer.Option("--input-json", metavar="FILE", help="The whole input as a JSON file; - is stdin.")
    ] = None,
    files: Annotated[
        list[str] | None, typer.Option("--file", metavar="DOCUMENT", help="Upload it and give it to the run; repeat.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow/--detach", help="Follow it to its end, or only start it.")] = True,
    title: Annotated[str | None, typer.Option("--title")] = None,
    deadline: Annotated[float | None, typer.Option("--deadline", metavar="SECONDS")] = None,
    on_disconnect: Annotated[
        str, typer.Option(help="continue, cancel, or seconds of grace. A terminal is no page, so: continue.")
    ] = "continue",
    key: Annotated[
        str | None, typer.Option("--key", help="Idempotency key: the same key starts the same run only once.")
    ] = None,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """Start a run and follow it to its end."""
    _do(
        "start", as_json, base_url, token,
        agent=agent, pairs=inputs or [], input_json=input_json, files=files or [], is_following=follow, title=title,
        deadline_seconds=deadline, on_disconnect=on_disconnect, key=key,
    )  # fmt: skip


@run_app.command("list")
def run_list(
    status: Annotated[str | None, typer.Option("--status", help="One or more, separated by commas.")] = None,
    agent: Annotated[str | None, typer.Option("--agent")] = None,
    search: Annotated[str | None, typer.Option("--search", "-q", help="Text in the title.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000)] = 20,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """List runs, newest first."""
    _do("list_runs", as_json, base_url, token, status=status, agent=agent, search=search, limit=limit)


@run_app.command("show")
def run_show(run_id: RunId, as_json: AsJson = False, base_url: BaseUrl = None, token: Token = None) -> None:
    """Show where a run stands."""
    _do("show", as_json, base_url, token, run_id=run_id)


@run_app.command("follow")
def run_follow(
    run_id: RunId,
    after: Annotated[str | None, typer.Option("--after", metavar="CURSOR", help="The last event seen.")] = None,
    give_up: Annotated[float, typer.Option("--give-up", metavar="SECONDS", help="After so long without a sign.")] = 300,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """Follow a run to its end, over any cut of the connection. Ctrl-C detaches."""
    _do("follow", as_json, base_url, token, run_id=run_id, after=after, give_up_seconds=give_up)


@run_app.command("stop")
def run_stop(
    run_id: RunId,
    note: Annotated[str, typer.Option("--note", help="Why; it stays with the run.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the proof.")] = False,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """Ask a run to stop, and say what it had already done."""
    _do("stop", as_json, base_url, token, run_id=run_id, note=note, is_waiting=wait)


@run_app.command("answer")
def run_answer(
    run_id: RunId,
    question_id: Annotated[str, typer.Argument(metavar="QUESTION", help="q_…")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON, or just text.")],
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """Answer what a run asks."""
    _do("answer", as_json, base_url, token, run_id=run_id, question_id=question_id, value=value)


@documents_app.command("list")
def documents_list(
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000)] = 100,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """List the documents of the workspace."""
    _do("list_documents", as_json, base_url, token, limit=limit)


@documents_app.command("upload")
def documents_upload(
    files: Annotated[list[str], typer.Argument(metavar="FILE…")],
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """Upload documents (txt, md, html, pdf, docx)."""
    _do("upload_documents", as_json, base_url, token, files=files)


def _do(name: str, as_json: bool, base_url: str | None, token: str | None, **arguments: Any) -> None:
    try:
        target = read_target(base_url=base_url, token=token)
        # Not at the top: the HTTP client takes 0.2 s to import, and neither help nor a typing error needs it.
        command: Callable[..., int] = getattr(import_module("runs.cli.commands"), name)
        code = command(target=target, as_json=as_json, **arguments)
    except CliProblem as problem:
        if as_json:
            import_module("runs.cli.output").open_output(as_json=True).row(
                {"object": "error", "code": problem.code, "message": problem.message}, ""
            )
        typer.echo(f"outlive: {problem.message}", err=True)
        code = problem.exit_code
    except KeyboardInterrupt:
        typer.echo("outlive: interrupted before anything was followed.", err=True)
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `outlive run list | head` is no error
        code = 0
    raise typer.Exit(code)
