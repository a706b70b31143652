"""The rules of the schema on a database that is in use: what is there passes, and what breaks a rule is named."""

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from runs.access import Actor
from runs.migrations._checking import RowsAgainstARule
from runs.models import Run
from runs.states import Status
from tests.runs.every_row import make_rows

pytestmark = pytest.mark.django_db
BEFORE = "0012_shell_viewers"


def migrate(name: str | None) -> None:
    """Go to a migration, or to the newest one, inside the test's transaction."""
    with connection.cursor() as cursor:
        cursor.execute("set constraints all immediate")  # a table with checks yet to come cannot be altered
    executor = MigrationExecutor(connection)
    targets = [node for node in executor.loader.graph.leaf_nodes() if node[0] == "runs"]
    executor.migrate([("runs", name)] if name else targets)


def names() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("select tgname from pg_trigger where not tgisinternal")
        found = {name for (name,) in cursor.fetchall()}
        cursor.execute("select relname from pg_class where relname in ('event_one_end', 'control_one_pilot')")
        return found | {name for (name,) in cursor.fetchall()}


RULES = {"run_rules", "event_one_end", "control_one_pilot", "evidence_only_added", "audit_only_added"}


@pytest.fixture
def rows(owner: Actor) -> dict[str, object]:
    """What the schema before had to hold: runs in every state, and a row of each table."""
    made = make_rows(owner)
    migrate(BEFORE)
    assert not names() & RULES
    return made


def test_a_database_with_runs_of_every_kind_takes_the_rules(rows: dict[str, object]) -> None:
    kinds = set(Run.objects.values_list("status", flat=True))
    assert kinds >= {Status.QUEUED, Status.RUNNING, Status.WAITING, Status.CANCEL_REQUESTED, Status.CANCELLED}
    before = list(Run.objects.order_by("pk").values())
    migrate(None)
    assert names() >= RULES
    assert list(Run.objects.order_by("pk").values()) == before


@pytest.mark.parametrize(
    ("rule", "name", "wrong"),
    [
        ("run_timer_has_wake_at", "asleep", "update runs_run set wake_at = null where id = %(asleep)s"),
        (
            "run_stopping_has_deadline",
            "stopping",
            "update runs_run set stop_deadline_at = null where id = %(stopping)s",
        ),
        ("run_stopped_has_receipt", "stopped", "update runs_run set cancel_effects = null where id = %(stopped)s"),
        ("run_completed_has_result", "done", "update runs_run set has_result = false where id = %(done)s"),
        ("run_grace_only_while_alone", "done", "update runs_run set grace_expires_at = now() where id = %(done)s"),
        (
            "event_one_end",
            "stream",
            """insert into runs_event select stream_id, last_seq + 1, 'run.failed', '{}' from runs_run
               where id = %(done)s""",
        ),
        (
            "control_one_pilot",
            "shell_run",
            """insert into runs_controlconnection
                 (id, run_id, user_id, generation, presence_until, attached_at, is_live, is_pilot)
               select gen_random_uuid(), run_id, user_id, 2, now(), now(), true, true from runs_controlconnection""",
        ),
    ],
)
def test_rows_against_a_rule_are_named_and_nothing_is_changed(
    rows: dict[str, object], rule: str, name: str, wrong: str
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(wrong, rows)
    with pytest.raises(RowsAgainstARule, match=f"nothing was changed(.|\n)*{rule}: {rows[name]}"):
        migrate(None)
    assert rule not in names()
    assert ("run_rules" in names()) == (rule in ("event_one_end", "control_one_pilot"))
