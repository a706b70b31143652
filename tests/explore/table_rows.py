"""The same rows again and again: an order begins where every other one did.

What `arrange` made through real decisions is copied once; a function of the database puts it back, in one call.
"""

from django.apps import apps
from django.db import connection

from runs.models import Run

SAVED = "explore_saved"
ONLY_ADDED = "alter table runs_evidence {} trigger evidence_only_added"  # the rows of one order are taken away again
RESET = "select explore_reset()"


def tables_of_runs() -> list[str]:
    """Name every table whose rows belong to a run, and their events."""
    found = {"runs_event"}
    models = list(apps.get_app_config("runs").get_models())
    reached = {Run}
    while grown := {m for m in models if m not in reached and _points_to(m, reached)}:
        reached |= grown
    return sorted(found | {m._meta.db_table for m in reached})


def _points_to(model: type, reached: set[type]) -> bool:
    fields = model._meta.get_fields()  # type: ignore[attr-defined]
    return any(f.concrete and f.remote_field and f.related_model in reached for f in fields)


def save_rows() -> None:
    """Copy what is there now, and make the function that puts it back."""
    tables = tables_of_runs()
    with connection.cursor() as cursor:
        cursor.execute(f"drop schema if exists {SAVED} cascade; create schema {SAVED}")
        cursor.execute(ONLY_ADDED.format("disable"))
        filled = []
        for table in tables:
            cursor.execute(f"create table {SAVED}.{table} as table {table}")
            cursor.execute(f"select 1 from {table} limit 1")
            if cursor.fetchone():
                filled.append(table)
        clear = "".join(f"delete from {table}; " for table in tables)
        fill = "".join(f"insert into {table} overriding system value table {SAVED}.{table}; " for table in filled)
        cursor.execute(
            f"""create or replace function explore_reset() returns void language plpgsql as $$
                begin set constraints all deferred; {clear} {fill} end $$"""
        )


def drop_rows() -> None:
    """Remove the copies."""
    with connection.cursor() as cursor:
        cursor.execute(f"drop schema if exists {SAVED} cascade; drop function if exists explore_reset()")
        cursor.execute(ONLY_ADDED.format("enable"))
        cursor.execute("vacuum" if not connection.in_atomic_block else "select 1")
