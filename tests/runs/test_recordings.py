"""Recordings: for whoever may watch the shell, and gone some days after the last word."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from runs.errors import NotFound
from runs.ids import text_id
from runs.models import Shell
from runs.recordings import find_recording, forget_recording, recording_path
from runs.supervisor.keeping import tidy_once
from tests.builders import a_shell, a_tenant, an_actor

pytestmark = pytest.mark.django_db
CAST = b'{"version": 2, "width": 80, "height": 24, "timestamp": 1}\n[0.1, "o", "hello"]\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.RECORDINGS = tmp_path / "recordings"
    settings.RECORDINGS.mkdir()
    return tmp_path / "recordings"


def a_recorded_shell(actor: Any) -> Shell:
    shell = a_shell(actor)
    Shell.objects.filter(pk=shell.pk).update(is_recorded=True)
    recording_path(shell.pk).write_bytes(CAST)
    return Shell.objects.get(pk=shell.pk)


def test_whoever_may_watch_the_shell_downloads_it(client: Client) -> None:
    tenant = a_tenant("home")
    shell = a_recorded_shell(an_actor("owner", tenant, "runner"))
    address = f"/api/v1/shells/{text_id('shell', shell.pk)}/recording"
    client.force_login(an_actor("watcher", tenant, "viewer").user)
    answer = client.get(address)
    assert (answer.status_code, b"".join(answer.streaming_content)) == (200, CAST)  # type: ignore[attr-defined]
    assert answer["Content-Type"] == "application/x-asciicast"
    assert answer["Content-Disposition"].startswith("attachment")
    client.force_login(an_actor("stranger", a_tenant("elsewhere"), "admin").user)
    assert client.get(address).status_code == 404
    client.logout()
    assert client.get(address).status_code == 401


def test_a_shell_that_is_not_recorded_has_none() -> None:
    """Also where a file lies there: the row says what people were told."""
    owner = an_actor("owner", a_tenant("home"), "runner")
    shell = a_shell(owner)
    recording_path(shell.pk).write_bytes(CAST)
    with pytest.raises(NotFound):
        find_recording(actor=owner, shell_id=shell.pk)


def test_it_is_deleted_by_its_age_and_then_not_found(folder: Path) -> None:
    owner = an_actor("owner", a_tenant("home"), "runner")
    young, old = a_recorded_shell(owner), a_recorded_shell(owner)
    path, days = recording_path(old.pk), 86_400
    os.utime(path, (0, time.time() - 7.1 * days))
    os.utime(recording_path(young.pk), (0, time.time() - 6.9 * days))
    (folder / "note.txt").write_text("not ours")
    os.utime(folder / "note.txt", (0, 0))
    assert tidy_once() == 1
    assert not path.exists()
    assert not forget_recording(path)
    assert find_recording(actor=owner, shell_id=young.pk).read_bytes() == CAST
    assert (folder / "note.txt").exists()
    with pytest.raises(NotFound):
        find_recording(actor=owner, shell_id=old.pk)
