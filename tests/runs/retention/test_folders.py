"""Folders of runs: deleted with care, long after the end, and never another's."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from django.conf import LazySettings

from runs.access import Actor
from runs.models import Run
from runs.retention import folders
from runs.retention.folders import GONE, clear, delete_tree, old_folders
from runs.states import OperationState
from runs.supervisor.keeping import tidy_once
from tests.builders import a_run
from tests.runs.decisions.test_compensations import an_operation, ask, begin, finish
from tests.runs.retention.conftest import SetLimits, a_told_run, make_older
from tests.streaming.writing import start_new_attempt

pytestmark = pytest.mark.django_db
LONG_AGO = 1_700_000_000.0


@pytest.fixture(autouse=True)
def place(settings: LazySettings, tmp_path: Path) -> Path:
    settings.WORKSPACES, settings.SHELL_HOMES = tmp_path / "workspaces", tmp_path / "homes"
    settings.WORKSPACES.mkdir(mode=0o775)
    settings.SHELL_HOMES.mkdir()
    return tmp_path


def a_folder(above: Path, name: str, *, is_quiet: bool = True) -> Path:
    folder = above / name
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file").write_text("x")
    if is_quiet:
        os.utime(folder, (LONG_AGO, LONG_AGO))
    return folder


def an_old_run(owner: Actor, *, days: float = 31) -> Run:
    run = a_told_run(owner)
    make_older(run, days=days)
    return run


def test_both_folders_of_a_run_that_ended_a_month_ago_are_deleted(owner: Actor, place: Path) -> None:
    old, young = an_old_run(owner), an_old_run(owner, days=29)
    for run in (old, young):
        for name in ("workspaces", "homes"):
            a_folder(place / name, run.pk.hex)
    assert tidy_once() == 2
    for name in ("workspaces", "homes"):
        assert sorted(path.name for path in (place / name).iterdir()) == sorted([GONE, young.pk.hex])
        assert list((place / name / GONE).iterdir()) == []
    assert Run.objects.filter(pk=old.pk).exists()


def test_they_go_with_a_run_that_is_deleted_whole(owner: Actor, place: Path, set_limits: SetLimits) -> None:
    set_limits(folders_days=40, runs_days=30)
    a_folder(place / "workspaces", an_old_run(owner, days=50).pk.hex)
    assert tidy_once() == 2
    assert not Run.objects.exists()
    assert [path.name for path in (place / "workspaces").iterdir()] == [GONE]


def be_held(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(is_held=True)


def be_in_doubt(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(status="needs_reconciliation")


@pytest.mark.parametrize("becomes", [be_held, be_in_doubt, start_new_attempt])
def test_what_is_held_in_doubt_or_wanted_again_keeps_its_folder(
    owner: Actor, place: Path, becomes: Callable[[Run], object]
) -> None:
    """Also where it becomes so after it was found."""
    run = an_old_run(owner)
    folder = a_folder(place / "workspaces", run.pk.hex)
    assert list(old_folders()) == [folder]
    becomes(run)
    assert list(old_folders()) == []
    assert clear(folder) is False
    assert (folder / "deep" / "file").exists()


def test_a_run_that_goes_on_keeps_its_folder(owner: Actor, place: Path) -> None:
    folder = a_folder(place / "workspaces", a_run(owner).pk.hex)
    assert tidy_once() == 0
    assert folder.exists()


def test_a_compensation_that_waits_or_is_being_sent_keeps_the_workspace(owner: Actor, place: Path) -> None:
    """It may read there for as long as it likes before it puts anything in."""
    operation = an_operation(owner)
    make_older(operation.run, days=31)
    folder = a_folder(place / "workspaces", operation.run_id.hex)
    assert list(old_folders()) == [folder]
    wanted = ask(operation)
    for _ in ("waits", "is being sent"):
        assert (list(old_folders()), clear(folder)) == ([], False)
        begin(wanted)
    finish(wanted, OperationState.SUCCEEDED)
    assert clear(folder)


def test_a_folder_that_something_was_put_in_lately_stays(owner: Actor, place: Path) -> None:
    folder = a_folder(place / "workspaces", an_old_run(owner).pk.hex, is_quiet=False)
    assert tidy_once() == 0
    assert folder.exists()


def test_what_the_database_does_not_know_is_not_ours(owner: Actor, place: Path) -> None:
    run = an_old_run(owner)
    a_folder(place / "workspaces", uuid4().hex)
    a_folder(place / "workspaces", ".proofs")
    link = place / "workspaces" / run.pk.hex
    link.symlink_to(place / "homes")
    os.utime(link, (LONG_AGO, LONG_AGO), follow_symlinks=False)
    (place / "homes").chmod(0o777)
    a_folder(place / "homes", run.pk.hex)  # in a folder that others write to, anybody may have put it there
    assert tidy_once() == 0


def test_a_deletion_that_was_cut_off_is_finished(owner: Actor, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = a_folder(place / "workspaces", an_old_run(owner).pk.hex)
    with monkeypatch.context() as patched:
        patched.setattr(folders, "delete_tree", lambda path: (_ for _ in ()).throw(OSError("no more time")))
        assert tidy_once() == 0
    assert not folder.exists()
    aside = place / "workspaces" / GONE / folder.name
    assert (aside / "deep" / "file").exists()
    again = a_folder(place / "workspaces", folder.name)  # a compensation came meanwhile
    assert tidy_once() == 2
    assert [aside.exists(), again.exists()] == [False, False]


def test_of_two_supervisors_one_is_late(owner: Actor, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = a_folder(place / "workspaces", an_old_run(owner).pk.hex)

    def other_first(path: Path) -> None:
        shutil.rmtree(path)
        delete_tree(path)

    monkeypatch.setattr(folders, "delete_tree", other_first)
    assert clear(folder) is False
    assert list(old_folders()) == []


@pytest.fixture
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = Path("/tmp") / f"outlive-{uuid4().hex}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="root is stopped by no rights, and only root can become somebody else")
def test_rights_that_a_program_took_away_keep_nothing(theirs: Path) -> None:
    victim = theirs / "victim"
    victim.mkdir(mode=0o500)
    folder = theirs / "run"
    (folder / "closed" / "deeper").mkdir(parents=True)
    (folder / "closed" / "deeper" / "file").write_text("x")
    (folder / "closed" / "link").symlink_to(victim)
    for path in (theirs, victim, folder, folder / "closed", folder / "closed" / "deeper"):
        os.chown(path, 65534, 65534)
    (folder / "closed" / "deeper").chmod(0o500)
    (folder / "closed").chmod(0)
    child = os.fork()
    if not child:
        os.setresuid(65534, 65534, 65534)
        try:
            delete_tree(folder)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert [path.name for path in theirs.iterdir()] == ["victim"]
    assert victim.stat().st_mode & 0o777 == 0o500
