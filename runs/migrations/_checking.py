"""What a migration looks at before it adds a rule: rows that break it are named, and nothing is changed.

They were written by hand or by a bug. PostgreSQL would refuse the rule too, but name neither the rows nor what to do.
"""

from collections.abc import Mapping

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

NAMED = 5


class RowsAgainstARule(Exception):
    """Rows that are there break a rule that was to be added."""


def look_for(wrong: Mapping[str, str]) -> migrations.RunPython:
    """Give the first operation of a migration. wrong: by rule, a query whose first column names the rows against it."""

    def look(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
        found = []
        with schema_editor.connection.cursor() as cursor:
            for rule, query in wrong.items():
                cursor.execute(query)
                if rows := cursor.fetchall():
                    some = ", ".join(str(row[0]) for row in rows[:NAMED])
                    found.append(f"{rule}: {some}{f' and {len(rows) - NAMED} more' if len(rows) > NAMED else ''}")
        if found:
            raise RowsAgainstARule(
                "These rows break a rule of the new schema; nothing was changed. Set them right, then migrate again.\n"
                + "\n".join(found)
            )

    return migrations.RunPython(look, migrations.RunPython.noop)
