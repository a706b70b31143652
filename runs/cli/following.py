"""Following a run to its end in a terminal: cuts are bridged, Ctrl-C detaches, the exit code says how it ended."""

from typing import Any

from runs.cli.api import ApiClient
from runs.cli.output import Output, open_output
from runs.cli.plain_text import safe_line
from runs.cli.problems import EXIT_OF_STATUS, Unreachable
from runs.cli.stream import RunStream, follow_command
from runs.cli.telling import WORDS
from runs.reading.machine import Reading


def follow_to_the_end(
    client: ApiClient, run: dict[str, Any], *, as_json: bool, after: str | None = None, give_up_seconds: float = 300.0
) -> int:
    """Show the run's events until it has ended; return the exit code of its end, or 0 after Ctrl-C.

    Raises: Refused, Unreachable.
    """
    run_id = run["id"]
    output = open_output(as_json=as_json, run_id=run_id, is_following=True)
    reading = Reading(after, give_up_seconds=give_up_seconds)

    def tell_cut(reason: str, wait_seconds: float) -> None:
        output.note(f"Connection lost ({safe_line(reason, 120)}); the run goes on. Again…")

    try:
        for frame in RunStream(client, run_id, reading, tell_cut).frames():
            output.frame(frame)
        return _finish(client, run_id, output)
    except KeyboardInterrupt:
        output.close()
        output.note(_farewell(run, reading.cursor))
        return 0
    finally:
        output.close()


def end_of(run: dict[str, Any]) -> int:
    """Say the exit code of a run that has ended."""
    return EXIT_OF_STATUS[run["status"]]


def _finish(client: ApiClient, run_id: str, output: Output) -> int:
    run = client.call("GET", f"/runs/{run_id}").body
    output.close()
    if run["status"] not in EXIT_OF_STATUS:
        raise Unreachable(
            f"The stream ended, but the run is {run['status']}. It goes on: {follow_command(run_id)}", code="cut"
        )
    lines = [f"{WORDS[run['status']]}. {run_id}"]
    lines += [f"  not settled: {operation_id}" for operation_id in run["unsettled_operations"]]
    output.row(run, "\n".join(lines))
    return end_of(run)


def _farewell(run: dict[str, Any], cursor: str | None) -> str:
    back = follow_command(run["id"], cursor)
    if run["on_disconnect"] == "continue":
        return f"Detached. The run goes on: {back}"
    return f"Detached. By its policy the run stops itself when nobody is attached: {back}"
