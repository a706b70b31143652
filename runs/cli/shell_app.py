"""The options of `outlive shell`. What its commands do stands in shells.py."""

from typing import Annotated

import typer

from runs.cli.doing import AsJson, BaseUrl, Token, do

shell_app = typer.Typer(help="Open, attach to, list and end shells.", no_args_is_help=True)
ShellId = Annotated[str, typer.Argument(metavar="ID", help="shell_…")]


@shell_app.command("open")
def shell_open(
    target: Annotated[str | None, typer.Argument(metavar="TARGET", help="Where; else the local one.")] = None,
    command: Annotated[
        str | None, typer.Option("--command", help="One that the target allows; else its first.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title")] = None,
    grace: Annotated[
        float | None,
        typer.Option("--grace", metavar="SECONDS", min=0, help="How long it lives with nobody in control."),
    ] = None,
    deadline: Annotated[float | None, typer.Option("--deadline", metavar="SECONDS")] = None,
    record: Annotated[bool, typer.Option("--record", help="Keep a transcript, where the target allows it.")] = False,
    attach: Annotated[bool, typer.Option("--attach/--detach", help="Attach to it, or only open it.")] = True,
    key: Annotated[str | None, typer.Option("--key", help="Idempotency key: the same key opens only one.")] = None,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """Open a shell that outlives this terminal, and attach to it. Exit code: the shell's own; 0 after Ctrl-] d."""
    do(
        "open_shell", as_json, base_url, token, module="shells",
        place=target, command=command, title=title, grace=grace, deadline_seconds=deadline, is_recorded=record,
        is_attaching=attach, key=key,
    )  # fmt: skip


@shell_app.command("attach")
def shell_attach(
    shell_id: ShellId,
    view: Annotated[bool, typer.Option("--view", help="Only watch.")] = False,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """Attach to a shell: in control if nobody is, watching otherwise. Ctrl-] d detaches, Ctrl-] t takes control.

    An agent's shell is watched, until you take control; Ctrl-] b hands it back to the agent.
    """
    do("attach", as_json, base_url, token, module="shells", shell_id=shell_id, is_viewer=view)


@shell_app.command("list")
def shell_list(
    all_: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100)] = 20,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """List shells, newest first."""
    do("list_shells", as_json, base_url, token, module="shells", is_all=all_, limit=limit)


@shell_app.command("take-over")
def shell_take_over(shell_id: ShellId, as_json: AsJson = False, base_url: BaseUrl = None, token: Token = None) -> None:
    """Take an agent's shell over: the agent waits until you hand it back, whether or not you attach."""
    do("change_hands", as_json, base_url, token, module="shells", shell_id=shell_id, what="take_over")


@shell_app.command("hand-back")
def shell_hand_back(shell_id: ShellId, as_json: AsJson = False, base_url: BaseUrl = None, token: Token = None) -> None:
    """Hand a shell that you have taken over back to its agent."""
    do("change_hands", as_json, base_url, token, module="shells", shell_id=shell_id, what="hand_back")


@shell_app.command("end")
def shell_end(
    shell_id: ShellId,
    note: Annotated[str, typer.Option("--note", help="Why; it stays with the run.")] = "",
    as_json: AsJson = False,
    base_url: BaseUrl = None,
    token: Token = None,
) -> None:
    """End a shell: what runs in it is asked, then killed. It is the stop of its run."""
    do("end_shell", as_json, base_url, token, module="shells", shell_id=shell_id, note=note)
