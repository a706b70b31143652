"""`python -m config.stack services -- COMMAND`: the command finds both services, and nothing stays behind."""

import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from config.stack.embedded_postgres import database_url, postgres_spec
from config.stack.identity import command_line, start_time
from config.stack.postgres_site import choose_site
from config.stack.runmodes import SELF, USER_NAMESPACE, RunMode, as_user, can_run
from config.stack.services import remove_folder
from config.stack.state import CHECKOUT, StateFolder, create_folder
from tests.config.stack.running import wait_until

pytestmark = pytest.mark.timeout(180)
TELL = """
import os, psycopg, redis
with psycopg.connect(os.environ['DATABASE_URL']) as db:
    db.execute('create table if not exists visit (id int)')
    db.execute('insert into visit values (1)')
    rows = db.execute('select count(*) from visit').fetchone()[0]
times = redis.Redis.from_url(os.environ['REDIS_URL']).incr('visits')
print(rows, times, os.geteuid())
"""
HOLD = """
import os, pathlib, signal, sys
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
signal.pause()
"""


def services(*words: str, prefix: list[str] | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT)}
    return subprocess.run(
        [*(prefix or []), sys.executable, "-m", "config.stack", "services", *words],
        env=base | environ, capture_output=True, text=True, check=False, cwd=CHECKOUT,
    )  # fmt: skip


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def hold(state: Path, mark: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start services with a command that waits. Returns the process and the id of the command."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT)}
    argv = [sys.executable, "-m", "config.stack", "services", "--fast", "--state", str(state), "--"]
    process = subprocess.Popen([*argv, sys.executable, "-c", HOLD, str(mark)], env=environ, cwd=CHECKOUT)
    wait_until(lambda: mark.exists() and mark.read_text(), "the command runs")
    return process, int(mark.read_text())


def postmaster(state: Path) -> int:
    return int((state / "pg/data/postmaster.pid").read_text().split("\n")[0])


def test_the_command_finds_both_and_its_exit_code_is_ours() -> None:
    assert last_line(services("--fast", "--", sys.executable, "-c", TELL)).startswith("1 1 ")
    assert services("--fast", "--", "sh", "-c", "exit 7").returncode == 7


def test_a_given_state_folder_keeps_the_data(tmp_path: Path) -> None:
    words = ("--state", str(tmp_path / "state"), "--", sys.executable, "-c", TELL)
    assert last_line(services(*words)).startswith("1 1 ")
    assert last_line(services(*words)).startswith("2 2 ")


@pytest.mark.parametrize("name", ["x" * 120, "a b'c"])
def test_a_long_or_odd_path_works_and_leaves_no_socket_folder(tmp_path: Path, name: str) -> None:
    state = tmp_path / name
    assert last_line(services("--fast", "--state", str(state), "--", sys.executable, "-c", TELL)).startswith("1 1 ")
    folders = [Path(note.read_text()) for note in state.glob("*/sockets")]
    assert len(folders) == 2
    remove_folder(state)
    assert not any(folder.exists() for folder in folders)


def test_given_addresses_are_used_instead() -> None:
    done = services(
        "--",
        "sh",
        "-c",
        'echo "$DATABASE_URL $REDIS_URL"',
        DATABASE_URL="postgresql:///given",
        REDIS_URL="unix:///given",
    )
    assert last_line(done) == "postgresql:///given unix:///given"
    assert "PostgreSQL" not in done.stdout


def test_sigterm_ends_the_command_and_the_services(tmp_path: Path) -> None:
    process, command = hold(tmp_path / "state", tmp_path / "mark")
    server = postmaster(tmp_path / "state")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 128 + signal.SIGTERM
    assert start_time(command) is None
    assert start_time(server) is None


def test_kill_9_ends_the_command_and_the_next_start_works(tmp_path: Path) -> None:
    state = tmp_path / "state"
    process, command = hold(state, tmp_path / "mark")
    process.kill()
    process.wait()
    wait_until(lambda: start_time(command) is None, "the command is gone")
    assert last_line(services("--state", str(state), "--", sys.executable, "-c", TELL)).startswith("1 1 ")


def test_a_foreign_process_with_the_old_number_is_left_alone(tmp_path: Path) -> None:
    """The old server's number belongs to another program now: it lives on, and the new server starts all the same."""
    state = tmp_path / "state"
    words = ("--state", str(state), "--", sys.executable, "-c", TELL)
    assert last_line(services(*words)).startswith("1 ")
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as foreign:
        (state / "pg/data/postmaster.pid").write_text(
            f"{foreign.pid}\n{state}/pg/data\n1\n5432\n{state}/pg\n\n0 0\nready\n"
        )
        record = f'{{"name": "web", "pid": {foreign.pid}, "started": "other", "marker": "", "stop_signal": 15}}'
        (state / "processes/web.json").write_text(record)
        assert last_line(services(*words)).startswith("2 ")
        assert foreign.poll() is None
        foreign.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to change its identity")
@pytest.mark.skipif(sys.platform != "linux", reason="user namespaces are Linux")
def test_an_ordinary_user_runs_it_directly(tmp_path: Path) -> None:
    """Inside a user namespace we are an ordinary user for every program, with root's access to this checkout."""
    reason = can_run(USER_NAMESPACE, ["true"])
    if reason:
        pytest.skip(f"no user namespaces here: {reason}")
    words = ("--fast", "--state", str(tmp_path / "state"), "--", sys.executable, "-c", TELL)
    assert last_line(services(*words, prefix=USER_NAMESPACE.wrap([]))) == "1 1 1000"


def modes_for(name: str) -> RunMode:
    if name == "other":
        entry = pwd.getpwnam("nobody")
        return as_user("nobody", entry.pw_uid, entry.pw_gid)
    return {"self": SELF, "namespace": USER_NAMESPACE}[name]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to change its identity")
@pytest.mark.parametrize("name", ["namespace", "other"])
def test_root_runs_it_in_each_mode(tmp_path: Path, name: str) -> None:
    """As another user the data moves to where that user may go: pytest's folders are closed to him."""
    mode = modes_for(name)
    if mode.uid is None and (reason := can_run(mode, ["true"])):
        pytest.skip(f"no user namespaces here: {reason}")
    state = create_folder(tmp_path / "state")
    try:
        spec, url = postgres_spec(state, os.environ, fast=True, modes=lambda _owner: [mode])
        assert spec.ready
        with subprocess.Popen(mode.wrap(list(spec.argv)), env=dict(spec.environ), cwd="/") as server:
            wait_until(spec.ready, "the database is ready")
            with psycopg.connect(url) as connection:
                assert connection.execute("select 1").fetchone() == (1,)
            server.send_signal(spec.stop_signal)
            assert server.wait(60) == 0
        moved = (state.root / "pg/location").exists()
        assert moved == (name == "other")
        # A later start finds the data again, whoever the first choice would be now.
        again = choose_site(state.root / "pg", Path(spec.argv[0]).parent)
        assert (again.data / "PG_VERSION").exists()
        assert again.mode.uid == mode.uid
    finally:
        remove_folder(state.root)


def test_the_address_names_the_socket_folder(tmp_path: Path) -> None:
    assert database_url(Path("/x/pg")) == "postgresql:///outlive?host=/x/pg&user=postgres"
    assert StateFolder(tmp_path).log("web") == tmp_path / "logs" / "web.log"
    assert "python" in command_line(os.getpid())
