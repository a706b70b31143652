"""`make up` as a person meets it: start, Ctrl-C, a killed predecessor, a second start, a taken port."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

import psycopg
import pytest
import redis

from config.stack.embedded_postgres import database_url
from config.stack.identity import start_time
from config.stack.state import CHECKOUT
from tests.config.stack.running import Running, wait_until

pytestmark = pytest.mark.timeout(180)
StartUp = Callable[..., Running]


def visits(running: Running) -> tuple[int, int]:
    with psycopg.connect(database_url(running.state / "pg")) as connection:
        row = connection.execute("select count(*) from visit").fetchone()
    assert row
    client = redis.Redis.from_url(f"unix://{running.state}/redis/redis.sock?db=0")
    try:
        return row[0], int(client.get("visits") or 0)
    finally:
        client.close()


def test_it_prints_address_login_and_a_curl_line(start_up: StartUp) -> None:
    running = start_up()
    running.await_ready()
    running.await_text("make down")
    assert f"http://127.0.0.1:{running.port}" in running.text
    assert "demo / pass-1" in running.text
    assert "Authorization: Bearer tok" in running.text
    running.await_text("[workers] ERROR: the worker says something bad")


def test_a_signal_stops_everything_and_says_so(start_up: StartUp) -> None:
    running = start_up()
    running.await_ready()
    pids = [running.pid_of(name) for name in ("web", "workers", "grandchild")]
    assert running.stop(signal.SIGINT) == 0
    assert "Stopped after" in running.text
    stopping = running.text[running.text.index("Stopping.") :]
    order = [stopping.index(f"  {name} ") for name in ("web", "workers", "redis", "postgres")]
    assert order == sorted(order)
    assert [start_time(pid) for pid in pids] == [None, None, None]
    assert not list((running.state / "processes").iterdir())


def test_a_program_that_ignores_the_signal_is_killed(start_up: StartUp) -> None:
    running = start_up("stubborn")
    running.await_ready()
    workers = running.pid_of("workers")
    assert running.stop() == 0
    assert "killed after 1." in running.text
    assert start_time(workers) is None


def test_a_second_start_keeps_data_and_password(start_up: StartUp) -> None:
    first = start_up()
    first.await_ready()
    first.stop()
    second = start_up()
    second.await_ready()
    second.await_text("make down")
    assert visits(second) == (2, 2)
    assert "demo / pass-1" in second.text
    assert "Bearer tok" in second.text
    for name in ("demo.json", "secret_key"):
        assert (second.state / name).stat().st_mode & 0o777 == 0o600
    assert json.loads((second.state / "demo.json").read_text())["url"] == f"http://127.0.0.1:{second.port}"


def test_after_kill_9_the_next_start_takes_over(start_up: StartUp) -> None:
    first = start_up()
    first.await_ready()
    first.process.kill()
    first.process.wait()
    grandchild = first.pid_of("grandchild")
    second = start_up()
    second.await_ready()
    assert visits(second) == (2, 2)
    assert start_time(grandchild) is None
    assert second.stop() == 0


def test_kill_9_ends_the_programs_at_once(start_up: StartUp) -> None:
    running = start_up()
    running.await_ready()
    pids = [running.pid_of(name) for name in ("web", "workers")]
    running.process.kill()
    wait_until(lambda: not any(start_time(pid) for pid in pids), "web and workers gone")


def test_a_killed_database_comes_back_with_its_data(start_up: StartUp) -> None:
    running = start_up()
    running.await_ready()
    pid = int((running.state / "pg/data/postmaster.pid").read_text().split("\n")[0])
    os.kill(pid, signal.SIGKILL)
    running.await_text("[postgres] ended (killed by SIGKILL), starts again in 0.5 s")

    def is_back() -> bool:
        try:
            return visits(running)[0] == 1
        except psycopg.OperationalError:
            return False

    wait_until(is_back, "the database is back")


def test_a_program_that_dies_is_started_again(start_up: StartUp) -> None:
    running = start_up("crash")
    running.await_ready()
    first = running.pid_of("workers")
    (running.state / "crash-now").touch()
    running.await_text("[workers] ended (exit code 3), starts again in 0.5 s")
    wait_until(lambda: running.pid_of("workers") != first, "new workers")


def test_a_taken_port_is_one_line_and_nothing_is_started(start_up: StartUp) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        running = start_up(on_port=other.getsockname()[1])
        assert running.process.wait(30) == 2
    assert f"Port {running.port} is taken" in running.text
    assert len(running.text.strip().splitlines()) == 1
    assert not list((running.state / "logs").iterdir())


def test_two_starts_in_one_checkout_are_one_line(start_up: StartUp) -> None:
    first = start_up()
    first.await_ready()
    second = start_up()
    assert second.process.wait(30) == 2
    assert second.text.strip().splitlines() == [
        f"outlive: Outlive is running in this checkout already (process {first.process.pid}). `make down` stops it."
    ]
    assert first.process.poll() is None


def test_a_failed_migration_is_said_and_everything_stops(start_up: StartUp) -> None:
    running = start_up("fail-prepare")
    assert running.process.wait(60) == 1
    assert "outlive: prepare failed: relation does not fit. See " in running.text
    assert not list((running.state / "processes").iterdir())


def test_a_program_that_cannot_start_is_said_and_everything_stops(start_up: StartUp) -> None:
    running = start_up("die-at-start")
    assert running.process.wait(60) == 1
    assert "outlive: workers ended while starting (exit code 1): no such command: workers" in running.text


def test_a_signal_during_the_start_stops_it(start_up: StartUp) -> None:
    running = start_up()
    running.await_text("PostgreSQL")
    assert running.stop() == 0
    assert "Stopped after" in running.text
    assert not list((running.state / "processes").iterdir())


def down(running: Running) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT), "OUTLIVE_STATE": str(running.state)}
    argv = [sys.executable, "-m", "config.stack", "down"]
    return subprocess.run(argv, env=environ, cwd=CHECKOUT, capture_output=True, text=True, check=False)


def test_down_stops_a_running_stack_and_is_happy_with_none(start_up: StartUp) -> None:
    running = start_up()
    running.await_ready()
    done = down(running)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Outlive is stopped.")
    assert running.process.wait(30) == 0
    assert down(running).returncode == 0


def test_down_ends_what_a_killed_stack_left(start_up: StartUp) -> None:
    running = start_up()
    running.await_ready()
    grandchild = running.pid_of("grandchild")
    running.process.kill()
    running.process.wait()
    assert down(running).returncode == 0
    assert start_time(grandchild) is None
