"""The example of the README is run as it stands there."""

import contextlib
import io
import re

import pytest

from runs.access import Actor
from runs.ids import text_id
from tests import builders
from tests.streaming.conftest import ROOT, Site, token_of
from tests.streaming.writing import deltas, emit, end, stored

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_example_of_the_readme_reads_a_run_to_its_end(site: Site, owner: Actor) -> None:
    run = builders.a_run(owner)
    emit(run, *deltas(5))
    end(run)
    found = re.search(r"```python\n(from streaming\.client import .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found
    code = found[1].replace("http://127.0.0.1:8000", site.base)
    assert len([line for line in code.splitlines() if line.strip()]) <= 11
    names = {"token": token_of(owner), "run_id": text_id("run", run.pk), "cursor": None}
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(code, names)
    seqs = [int(line.split()[0]) for line in said.getvalue().splitlines()]
    assert seqs == stored(run)
    assert names["cursor"] == f"{text_id('st', run.stream_id)}:{seqs[-1]}"
