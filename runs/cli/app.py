"""The commands and their options. What they do stands in commands.py and doctor.py, loaded only when one is run."""

from typing import Annotated

import typer

from runs.cli.doing import AsJson, BaseUrl, Token, do
from runs.cli.shell_app import shell_app

HELP = """Runs whose life does not hang on a connection.

Exit codes of start, follow and stop --wait: 0 completed, 1 failed, 2 usage, 3 cancelled, 4 needs reconciliation,
5 unreachable. Ctrl-C while following detaches; it stops nothing."""

# Help without rich: 0.2 s less before the first line.
app = typer.Typer(help=HELP, no_args_is_help=True, add_completion=False, rich_markup_mode=None)
run_app = typer.Typer(help="Start, list, show, follow, stop, retry and answer runs.", no_args_is_help=True)
documents_app = typer.Typer(help="Upload and list documents.", no_args_is_help=True)
app.add_typer(run_app, name="run")
app.add_typer(documents_app, name="documents")
app.add_typer(shell_app, name="shell")

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
    budget: Annotated[
        int | None,
        typer.Option("--budget", metavar="TOKENS", min=1, help="What it and the runs that it begins may spend."),
    ] = None,
    on_disconnect: Annotated[
        str, typer.Option(help="continue, cancel, or seconds of grace. A terminal is no page, so: continue.")
    ] = "continue",
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="conv_…: make it the next run of this one.")
    ] = None,
    on_busy: Annotated[
        str, typer.Option(help="While a run of the conversation is active: reject, enqueue or interrupt.")
    ] = "reject",
    key: Annotated[
        str | None, typer.Option("--key", help="Idempotency key: the same key starts the same run only once.")
    ] = None,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """Start a run and follow it to its end."""
    do(
        "start", as_json, base_url, token,
        agent=agent, pairs=inputs or [], input_json=input_json, files=files or [], is_following=follow, title=title,
        deadline_seconds=deadline, budget_tokens=budget, on_disconnect=on_disconnect,
        conversation=conversation, on_busy=on_busy, key=key,
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
    do("list_runs", as_json, base_url, token, status=status, agent=agent, search=search, limit=limit)


@run_app.command("show")
def run_show(run_id: RunId, as_json: AsJson = False, base_url: BaseUrl = None, token: Token = None) -> None:
    """Show where a run stands."""
    do("show", as_json, base_url, token, run_id=run_id)


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
    do("follow", as_json, base_url, token, run_id=run_id, after=after, give_up_seconds=give_up)


@run_app.command("stop")
def run_stop(
    run_id: RunId,
    note: Annotated[str, typer.Option("--note", help="Why; it stays with the run.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the proof.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Operators: end it now; what has no proof becomes unknown.")
    ] = False,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """Ask a run to stop, and say what it had already done."""
    do("stop", as_json, base_url, token, run_id=run_id, note=note, is_waiting=wait, is_forced=force)


@run_app.command("retry")
def run_retry(
    run_id: RunId,
    reason: Annotated[str, typer.Option("--reason", help="Why; it stays with the attempt.")] = "",
    everything: Annotated[bool, typer.Option("--everything", help="Do every step anew, not only the rest.")] = False,
    redo: Annotated[
        list[str] | None,
        typer.Option("--redo", metavar="OPERATION", help="op_…: do it again although it took effect; repeat it."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow/--detach", help="Follow it to its end, or only start it.")] = True,
    key: Annotated[str | None, typer.Option("--key", help="Idempotency key: the same key retries only once.")] = None,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """Try an ended run once more; what took effect is not done a second time unless you name it with --redo."""
    do(
        "retry", as_json, base_url, token,
        run_id=run_id, reason=reason, is_everything=everything, redo=redo or [], is_following=follow, key=key,
    )  # fmt: skip


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
    do("answer", as_json, base_url, token, run_id=run_id, question_id=question_id, value=value)


@documents_app.command("list")
def documents_list(
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000)] = 100,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """List the documents of the workspace."""
    do("list_documents", as_json, base_url, token, limit=limit)


@documents_app.command("upload")
def documents_upload(
    files: Annotated[list[str], typer.Argument(metavar="FILE…")],
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """Upload documents (txt, md, html, pdf, docx)."""
    do("upload_documents", as_json, base_url, token, files=files)


@app.command()
def doctor(
    idle: Annotated[
        float | None,
        typer.Option("--idle", metavar="SECONDS", min=1, help="Also hold an idle socket open for so long."),
    ] = None,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """Say what is wrong on the way to a server: proxy, address, cookies, streams; and show the limits in force.

    Exit codes: 0 no problem, 1 a problem, 5 no answer.
    """
    do("doctor", as_json, base_url, token, module="doctor", idle_seconds=idle)
