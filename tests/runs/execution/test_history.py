"""What a second walk sees of the first one."""

import json

from django.db import connection

from runs.execution.history import in_order


def test_a_result_has_the_same_text_before_and_after_the_database(db):
    first = {"zebra": 1, "a": {"long key": [{"b": 1, "aa": 2}], "k": None}}
    with connection.cursor() as cursor:
        cursor.execute("select %s::jsonb::text", [json.dumps(first)])
        stored = json.loads(cursor.fetchone()[0])
    assert json.dumps(stored) != json.dumps(first)  # jsonb has its own order
    assert json.dumps(in_order(stored)) == json.dumps(in_order(first))
