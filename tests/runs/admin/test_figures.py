"""The page of figures at the operators' desk."""

from collections.abc import Callable
from datetime import timedelta
from html.parser import HTMLParser

from django.test import Client
from django.utils import timezone

from runs.access import Actor
from runs.admin.figures import WORDS
from runs.database import decide
from runs.decisions import cancels
from runs.figures import read_figures
from runs.models import Step
from runs.states import CancelReason
from tests.builders import a_claim, a_dispatch, a_run, silent


class Links(HTMLParser):
    """The addresses that a page links in its table."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = dict(attrs).get("href") or ""
        if tag == "a" and target.startswith("/admin/runs/"):
            self.found.add(target)


def test_every_figure_has_a_word_and_a_list_that_opens(as_operator: Client, owner: Actor) -> None:
    a_run(owner)
    page = as_operator.get("/ops/")
    links = Links()
    links.feed(page.content.decode())
    assert page.status_code == 200
    assert set(WORDS) == {figure.name for figure in read_figures()}
    assert links.found
    assert {as_operator.get(link).status_code for link in links.found} == {200}


def test_a_broken_promise_stands_out(as_operator: Client, owner: Actor) -> None:
    run = a_run(owner)
    a_dispatch(run, a_claim(run))
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    assert "errornote" not in as_operator.get("/ops/").content.decode()
    Step.objects.filter(run=run).update(started_at=timezone.now() + timedelta(seconds=1))
    assert '<strong class="errornote">1</strong>' in as_operator.get("/ops/").content.decode()


def test_staff_who_operate_nothing_are_refused(desk: Callable[[Actor], Client], owner: Actor) -> None:
    assert desk(owner).get("/ops/").status_code == 403
    assert Client().get("/ops/").status_code == 302  # to the login page


def test_the_desk_leads_to_it(as_operator: Client) -> None:
    assert 'href="/ops/"' in as_operator.get("/admin/").content.decode()
