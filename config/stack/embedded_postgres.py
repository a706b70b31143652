"""The PostgreSQL of one state folder: made once, on a unix socket, taken over from a killed predecessor."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

import psycopg

from config.stack.binaries import postgres_folder
from config.stack.children import ChildSpec
from config.stack.errors import StackError
from config.stack.identity import PROC, ProcessRecord, command_line, end_process, start_time
from config.stack.postgres_site import Site, choose_site
from config.stack.runmodes import RunMode, candidate_modes
from config.stack.state import StateFolder, socket_folder

DATABASE = "outlive"
INITDB_SECONDS = 120
OLD_BACKEND_SECONDS = 10.0
PROBLEM = re.compile(r"\b(FATAL|PANIC):")  # an ERROR is a statement that failed: its sender knows
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "shared_buffers": "128MB",
    "max_connections": "200",
    "log_min_messages": "warning",
    # A unique insert that loses is our daily bread: its statement is the caller's to log.
    "log_min_error_statement": "panic",
}
FAST_SETTINGS = {"fsync": "off", "full_page_writes": "off"}  # for data that nobody will miss
LOCALES = (
    ("--locale=C.UTF-8",),
    ("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"),  # systems without C.UTF-8
)


def postgres_spec(
    state: StateFolder,
    environ: Mapping[str, str],
    *,
    fast: bool = False,
    modes: Callable[[int | None], Iterable[RunMode]] = candidate_modes,
) -> tuple[ChildSpec, str]:
    """Make the data folder if need be. Returns what to start, and the database URL.

    `fast` gives up crash safety, for tests. Raises StackError when no way to run it works here.
    """
    site = choose_site(state.root / "pg", postgres_folder(environ), modes)
    sockets = socket_folder(site.base)
    if site.mode.uid is not None and site.mode.gid is not None:
        os.chown(sockets, site.mode.uid, site.mode.gid)
    child_environ = clean_environ(environ)
    if not (site.data / "PG_VERSION").exists():
        _init(site, child_environ)
    settings = SETTINGS | (FAST_SETTINGS if fast else {})
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    url = database_url(sockets)
    spec = ChildSpec(
        name="postgres",
        argv=(
            str(site.programs / "postgres"),
            "-D",
            str(site.data),
            "-k",
            str(sockets),
            "-p",
            "5432",
            *options,
        ),
        marker=str(site.data),
        environ=child_environ,
        ready=lambda: says_ready(site.data) and ensure_database(url),
        before_start=lambda: clear_way(site.data),
        stop_signal=signal.SIGINT,  # fast shutdown: sessions are rolled back
        last_signal=signal.SIGQUIT,  # immediate shutdown: recovery at the next start
        death_signal=signal.SIGINT,
        mode=site.mode,
        problem=PROBLEM,
    )
    return spec, url


def database_url(sockets: Path, database: str = DATABASE) -> str:
    return f"postgresql:///{database}?host={quote(str(sockets))}&user=postgres"


def clean_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without PGPORT, a broken LC_ALL and whatever else would change the server."""
    return {"PATH": environ.get("PATH", os.defpath), "LC_ALL": "C"}


def says_ready(data: Path) -> bool:
    """Tell whether the server wrote that it takes connections: asking it earlier fills its log with refusals."""
    try:
        return (data / "postmaster.pid").read_text().split()[-1] == "ready"
    except (OSError, IndexError):
        return False


def ensure_database(url: str) -> bool:
    """Make our database. Returns False while the server does not take connections yet."""
    try:
        with psycopg.connect(url.replace(f"/{DATABASE}?", "/postgres?"), autocommit=True) as connection:
            known = connection.execute("select 1 from pg_database where datname = %s", [DATABASE]).fetchone()
            if not known:
                connection.execute(f'create database "{DATABASE}"')
    except psycopg.OperationalError:
        return False
    return True


def clear_way(data: Path) -> None:
    """Make sure that no server works on this data and that no stale pid file keeps a new one away.

    The pid in postmaster.pid may belong to another program by now: that one is left alone, only the file
    goes.
    Raises StackError when processes of the old server do not leave.
    """
    path = data / "postmaster.pid"
    try:
        pid = abs(int(path.read_text().split("\n", 1)[0]))
    except (OSError, ValueError):
        pid = 0
    if pid and start_time(pid):
        if str(data) in command_line(pid):
            record = ProcessRecord("postgres", pid, start_time(pid) or "", str(data), signal.SIGINT)
            end_process(record, first=signal.SIGINT, within_seconds=OLD_BACKEND_SECONDS, last=signal.SIGQUIT)
        else:
            _await_old_backends(data)
            path.unlink(missing_ok=True)
    _await_old_backends(data)


def _await_old_backends(data: Path) -> None:
    """Wait for the sessions of a killed server: they notice it when they next wait, and must not meet a new one."""
    give_up_at = time.monotonic() + OLD_BACKEND_SECONDS
    while _works_in(data):
        if time.monotonic() > give_up_at:
            raise StackError(f"Processes of an old PostgreSQL still use {data}. End them and start again.")
        time.sleep(0.02)


def _works_in(data: Path) -> bool:
    for link in PROC.glob("[0-9]*/cwd"):
        try:
            if Path(os.readlink(link)) == data:
                return True
        except OSError:
            continue
    return False


def _init(site: Site, environ: Mapping[str, str]) -> None:
    """Run initdb into a draft folder, so that a kill in the middle leaves nothing that looks finished."""
    draft = site.base / "data.new"
    said = ""
    for locale in LOCALES:
        shutil.rmtree(draft, ignore_errors=True)
        argv = [
            str(site.programs / "initdb"),
            "-D",
            str(draft),
            "-U",
            "postgres",
            "--auth=trust",
            "--no-sync",
        ]
        done = subprocess.run(
            site.mode.wrap([*argv, "--encoding=UTF8", "--no-instructions", *locale]),
            cwd="/", env=dict(environ), capture_output=True, text=True, check=False, timeout=INITDB_SECONDS,
        )  # fmt: skip
        if done.returncode == 0:
            draft.rename(site.data)
            return
        said = said or (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    raise StackError(f"initdb failed: {said}")
