"""A real nginx in front of a server: the configuration that docs/PROXIES.md shows, and variants of it."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from config.stack.external import NGINX, find
from tests.streaming.conftest import ROOT, free_port, wait_until

HOW = "no nginx found: `apt-get install nginx`, or set OUTLIVE_NGINX to the path of one"
FRAME = """
daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr;
{user}
events {{}}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    gzip on;  # as in Debian's nginx.conf
    {more}
{server}
}}
"""
UPGRADE = re.compile(r"\n    location /ws/ \{.*?\n    \}", re.DOTALL)


def documented(*, port: int, upstream: str) -> str:
    """Give the server block of the documentation for other addresses."""
    text = (ROOT / "docs" / "PROXIES.md").read_text()
    found = re.search(r"```nginx\n(.*?)```", text, re.DOTALL)
    assert found, "docs/PROXIES.md shows no nginx configuration"
    server = found[1].replace("http://127.0.0.1:8000", upstream).replace("listen 80;", f"listen 127.0.0.1:{port};")
    assert server.count(upstream) == 2
    return server


def without_upgrade(server: str) -> str:
    """Leave out what lets WebSockets through: what nginx does of its own."""
    bare, count = UPGRADE.subn("", server)
    assert count == 1
    return bare


@contextmanager
def running_nginx(folder: Path, *servers: str, more: str = "") -> Iterator[Path]:
    """Run nginx with these server blocks for the length of a block; gives its log.

    Without an nginx the test is skipped with the command to run, which CI=true makes a failure.
    """
    program = find(NGINX, os.environ)
    if program is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(HOW)
    folder.mkdir()
    config, log = folder / "nginx.conf", folder / "nginx.log"
    # A worker of root's nginx is nobody, who may not enter the test's folder.
    user = "user root;" if os.geteuid() == 0 else ""
    config.write_text(FRAME.format(server="\n".join(servers), more=more, user=user))
    with log.open("wb") as out:
        command = [program, "-p", str(folder), "-c", str(config), "-e", "stderr"]
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        wait_until(lambda: process.poll() is not None or (folder / "nginx.pid").exists(), 30, "nginx")
        assert process.poll() is None, log.read_text()
        yield log
    finally:
        process.terminate()
        process.wait(30)


def two_ports() -> tuple[int, int]:
    """Find two different ports that nobody listens on."""
    first = second = free_port()
    while second == first:
        second = free_port()
    return first, second
