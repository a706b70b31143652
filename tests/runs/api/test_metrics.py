"""GET /metrics: who may read it, and that a Prometheus server can."""

import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from runs.figures import read_figures
from tests.builders import a_run
from tests.runs.api.conftest import Caller

pytestmark = pytest.mark.django_db


def scrape(caller: Caller) -> tuple[int, str]:
    answer = caller.client.get("/metrics", headers={"Authorization": f"Bearer {caller.token}"})
    return answer.status_code, answer.content.decode()


def test_an_operator_reads_every_figure_of_their_tenant(operator: Caller, owner: Caller, outsider: Caller) -> None:
    a_run(owner.actor)
    a_run(outsider.actor)
    status, text = scrape(operator)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert status == 200
    assert set(families) == {f"outlive_{figure.name}" for figure in read_figures()}
    assert [(s.labels, s.value) for s in families["outlive_runs"].samples] == [({"status": "queued"}, 1.0)]


def test_a_superuser_reads_all_tenants(operator: Caller, owner: Caller, outsider: Caller) -> None:
    a_run(owner.actor)
    a_run(outsider.actor)
    operator.actor.user.is_superuser = True
    operator.actor.user.save()
    assert 'outlive_runs{status="queued"} 2.0' in scrape(operator)[1]


def test_nobody_else_reads_it(owner: Caller) -> None:
    status, text = scrape(owner)
    assert (status, '"code": "forbidden"' in text or '"code":"forbidden"' in text) == (403, True)
    assert Client().get("/metrics").status_code == 401
    assert Client().post("/metrics").status_code == 405
