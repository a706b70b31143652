"""The pages of shells: the list, opening one, its frame, and keeping it."""

import re

from django.utils import timezone

from runs.database import decide
from runs.decisions import cancels, controls
from runs.ids import text_id
from runs.models import Run, Shell, ShellTarget
from runs.states import CancelReason
from tests.builders import a_run, a_shell, a_tenant, an_actor, silent


def place(shell):
    return f"/shells/{text_id('shell', shell.pk)}/"


def test_the_form_opens_a_shell_once_and_goes_to_its_page(owner, as_owner):
    key = re.search(r'name="key" value="([^"]+)"', as_owner.get("/shells/").content.decode())[1]
    body = {"target": "local", "command": " top -b ", "title": " My own ", "key": key}
    first, again = as_owner.post("/shells/new/", body), as_owner.post("/shells/new/", body)
    shell = Shell.objects.get()
    assert (first.status_code, first["Location"], again["Location"]) == (303, place(shell), place(shell))
    assert (shell.command, shell.run.title, shell.run.created_by) == ("top -b", "My own", owner.user)
    refused = as_owner.post("/shells/new/", body | {"command": "vi"})
    assert refused.status_code == 409
    assert Shell.objects.count() == 1


def test_what_cannot_be_opened_is_said_beside_the_form(owner, as_owner):
    ShellTarget.objects.create(tenant=owner.tenant, name="box", commands=["htop"])
    answer = as_owner.post("/shells/new/", {"target": "box", "command": "rm"})
    assert answer.status_code == 400
    assert "This target runs only: htop." in answer.content.decode()
    assert as_owner.post("/shells/new/", {"target": "nowhere"}).status_code == 404
    assert not Run.objects.exists()


def test_the_list_shows_the_workspaces_shells_with_their_countdown(owner, as_owner):
    mine, ended = a_shell(owner, title="mine"), a_shell(owner, title="ended")
    decide(
        cancels.request_cancel(run_id=ended.run_id, reason=CancelReason.USER, by=owner.user.pk, note=""), ring=silent
    )
    a_shell(an_actor("stranger", a_tenant("elsewhere"), "admin"), title="theirs")
    page = as_owner.get("/shells/").content.decode()
    assert place(mine) in page
    assert "theirs" not in page
    assert page.count('data-style="left"') == 1, "the one that has ended counts nothing down"
    assert as_owner.get("/runs/").content.decode().count('data-style="left"') == 1


def test_a_viewer_watches_and_opens_none(owner, viewer, signed_in):
    shell = a_shell(owner)
    client = signed_in(viewer)
    assert "Open a shell" not in client.get("/shells/").content.decode()
    page = client.get(place(shell)).content.decode()
    assert 'data-role="viewer"' in page
    for mark in ('id="take"', 'id="stop-form"', 'id="keep-form"', "Start new shell"):
        assert mark not in page, mark
    assert client.post("/shells/new/", {"target": "local"}).status_code == 403
    assert client.post(f"{place(shell)}keep/").status_code == 403


def test_a_shell_of_another_workspace_is_not_there(owner, signed_in):
    shell = a_shell(owner)
    client = signed_in(an_actor("stranger", a_tenant("elsewhere"), "admin"))
    assert client.get(place(shell)).status_code == 404
    assert client.post(f"{place(shell)}keep/").status_code == 404


def test_the_page_of_a_living_shell_has_its_terminal_and_its_policy(owner, as_owner):
    answer = as_owner.get(place(a_shell(owner)))
    page, policy = answer.content.decode(), answer["Content-Security-Policy"]
    assert 'id="terminal"' in page
    assert 'data-role="pilot"' in page
    assert "Its screen shows here once it has one." in page
    assert "style-src-attr 'unsafe-inline'" in policy
    assert "'unsafe-inline'" not in re.search(r"script-src [^;]*|style-src [^;]*", policy)[0]
    assert "unsafe-inline" not in as_owner.get("/shells/")["Content-Security-Policy"]


def test_an_ended_shell_says_how_and_offers_a_new_one_with_its_command(owner, as_owner):
    shell = a_shell(owner, command="top -b")
    decide(
        cancels.request_cancel(run_id=shell.run_id, reason=CancelReason.USER, by=owner.user.pk, note=""), ring=silent
    )
    page = as_owner.get(place(shell)).content.decode()
    assert 'id="terminal"' not in page
    assert "Start new shell" in page
    assert 'name="command" value="top -b"' in page
    assert '"why": "user"' in page


def test_a_shell_that_nobody_pilots_is_kept_for_an_hour(owner, as_owner):
    shell = a_shell(owner)
    held = decide(controls.attach(run_id=shell.run_id, user_id=owner.user.pk), ring=silent)
    decide(controls.detach(connection_id=held.connection_id), ring=silent)
    assert as_owner.post(f"{place(shell)}keep/")["Location"] == place(shell)
    left = Run.objects.get().grace_expires_at - timezone.now()
    assert 3500 < left.total_seconds() <= 3600


def test_a_run_of_another_agent_has_no_shell(owner, as_owner):
    run = a_run(owner)
    assert as_owner.get(f"/shells/shell_{run.pk.hex}/").status_code == 404
