"""The schema refuses what no code path may do: each rule of it is broken by name (wrong_rows.py)."""

import re

import pytest
from django.db import IntegrityError, connection, transaction

from runs.access import Actor
from runs.states import EPILOGUE, TERMINAL_EVENT
from tests.runs.every_row import make_rows
from tests.runs.wrong_rows import WRONG, tell

pytestmark = pytest.mark.django_db
NAMED = """
select conname from pg_constraint where conrelid::regclass::text like 'runs\\_%' and contype in ('c', 'u', 'x')
union select i.indexrelid::regclass::text from pg_index i
where i.indisunique and not i.indisprimary and i.indrelid::regclass::text like 'runs\\_%'
union select tgname from pg_trigger where tgrelid::regclass::text like 'runs\\_%' and not tgisinternal"""
RULES = "select prosrc from pg_proc where proname = 'runs_run_rules'"


def refused_by(statement: str, rows: dict[str, object]) -> str | None:
    """Return the rule by which the database refuses a statement; None: it takes it. Nothing of it stays."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, rows)
            transaction.set_rollback(True)
    except IntegrityError as error:
        name: str = error.__cause__.diag.constraint_name  # type: ignore[union-attr]
        return name
    return None


def test_a_row_that_breaks_a_rule_is_refused_by_its_name(owner: Actor) -> None:
    rows = make_rows(owner)
    cases = [(rule, statement) for rule, statements in WRONG.items() for statement in statements]
    by = {(rule, statement): refused_by(statement, rows) for rule, statement in cases}
    assert {case: name for case, name in by.items() if name != case[0]} == {}


def test_every_rule_of_the_schema_is_broken_by_some_row(db: None) -> None:
    """A constraint, a unique index or a trigger that is new needs its statement in wrong_rows.py."""
    with connection.cursor() as cursor:
        cursor.execute(NAMED)
        names = {name for (name,) in cursor.fetchall()} - {"run_rules"}
        cursor.execute(RULES)
        names |= set(re.findall(r"'(run_[a-z_]+)'", cursor.fetchone()[0]))
    assert names == set(WRONG)
    assert all(WRONG.values())


def test_an_epilogue_may_follow_the_end(owner: Actor) -> None:
    rows = make_rows(owner)
    kinds = [*EPILOGUE, "compensation.requested", "compensation.succeeded"]
    assert {kind: refused_by(tell("done", kind), rows) for kind in kinds} == dict.fromkeys(kinds)


def test_every_kind_of_end_is_one(owner: Actor) -> None:
    rows = make_rows(owner)
    for kind in TERMINAL_EVENT.values():
        assert refused_by(tell("held", kind), rows) is None
        assert refused_by(f"{tell('held', kind)}; {tell('held', 'run.failed')}", rows) == "event_one_end"
