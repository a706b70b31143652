"""A shell's row: made with its run, kept past its grace, and closed by a sweep once the run has ended."""

from dataclasses import dataclass
from uuid import UUID

from runs.decisions.core import Bell, Decision, Query, Row
from runs.decisions.creation import NewRun, create
from runs.frames import tenant_bell
from runs.ids import new_id

RUN_COMMAND = "shell_run"  # the tool that types a command into an agent's shell
# A shell's run makes one call, and that lives on without its worker: the next claim adopts it. So does a command in it.
HAS_TERMINAL = f"""select 1 from runs_operation held where held.run_id = {{run}} and held.state = 'dispatched'
  and (held.tool = '{RUN_COMMAND}' or exists (select 1 from runs_shell h where h.run_id = held.run_id))"""


@dataclass(frozen=True, slots=True)
class NewShell:
    """What its opener decides; checked before it comes here. target_id None: the local one that needs no row."""

    target_id: UUID | None
    command: str
    rows: int
    cols: int
    opened_by: str  # person | agent
    is_recorded: bool


def open_shell(new: NewRun, shell: NewShell) -> Decision[Row | None]:
    """Store a queued run and its shell in one transaction. None: this idempotency key was used before."""
    run = yield from create(new)
    if run is not None:
        yield from add_shell(run["id"], shell)
    return run


def add_shell(run_id: UUID, shell: NewShell) -> Decision[UUID]:
    """Give a run of this transaction its shell; one that has a shell keeps it. Returns the new one's id."""
    shell_id = new_id()
    yield Query(
        """insert into runs_shell (id, tenant_id, run_id, target_id, command, rows, cols, opened_by, is_recorded)
           select %(id)s, tenant_id, id, %(target)s::uuid, %(command)s, %(rows)s, %(cols)s, %(opened_by)s, %(recorded)s
           from runs_run where id = %(run)s on conflict (run_id) do nothing""",
        {"id": shell_id, "run": run_id, "target": shell.target_id, "command": shell.command, "rows": shell.rows,
         "cols": shell.cols, "opened_by": shell.opened_by, "recorded": shell.is_recorded},
    )  # fmt: skip
    return shell_id


def keep_shell(*, run_id: UUID, seconds: float) -> Decision[bool]:
    """Let a grace that is running end at the earliest in so many seconds. False: none is running.

    Races: a pilot attached, or the end was recorded, first: false, and nothing changed.
    """
    rows = yield Query(
        """update runs_run set version = version + 1,
             grace_expires_at = greatest(grace_expires_at, clock_timestamp() + %(seconds)s * interval '1 second')
           where id = %(run)s and status in ('queued', 'running', 'waiting') and control_count = 0
             and grace_expires_at is not null returning id, tenant_id, version""",
        {"run": run_id, "seconds": seconds},
    )
    for row in rows:
        yield Bell(*tenant_bell(row["tenant_id"], row["id"], row["version"]))
    return bool(rows)


# What the program itself left is in the receipt of the one call that a shell's run makes.
TO_CLOSE = """
select s.run_id as id, r.terminal_at as due_at from runs_shell s join runs_run r on r.id = s.run_id
where s.ended_at is null and r.terminal_at is not null"""


def close_shell(*, run_id: UUID) -> Decision[bool]:
    """Copy the end of an ended run, and how its program ended, to its shell. False: that was done before."""
    rows = yield Query(
        """update runs_shell s set ended_at = r.terminal_at, exit_code = o.exit_code,
             signal = case when o.exit_code is null then o.signal end
           from runs_run r left join lateral (
             select (receipt #>> '{value,exit_code}')::int as exit_code, (receipt #>> '{value,signal}')::int as signal
             from runs_operation where run_id = r.id and receipt is not null order by created_at desc limit 1
           ) o on true
           where s.run_id = %(run)s and r.id = s.run_id and s.ended_at is null and r.terminal_at is not null
           returning s.id""",
        {"run": run_id},
    )
    return bool(rows)
