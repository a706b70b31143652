"""A real sshd on a loopback port, with a host key and an authorised key of its own."""

import contextlib
import getpass
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import psutil
import pytest

from config.stack.external import SSHD, find
from config.stack.ports import LOOPBACK, free_ports
from tests.tools.builders import wait_until_now


@dataclass
class Sshd:
    """Where it listens, what it shows, and who gets in."""

    process: subprocess.Popen[bytes]
    port: int
    host_key: str
    key_file: Path
    folder: Path

    @property
    def username(self) -> str:
        return getpass.getuser()

    def end(self) -> None:
        """Kill it, and what it serves."""
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.process.pid).children(recursive=True)
            self.process.kill()
            self.process.wait()
            for child in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()

    def leave_only(self, *programs: str) -> None:
        """Let whoever comes in find these programs only."""
        folder = self.folder / "bin"
        folder.mkdir()
        for name in programs:
            (folder / name).symlink_to(shutil.which(name) or name)
        authorized = self.folder / "authorized"
        authorized.write_text(f'environment="PATH={folder}" {authorized.read_text()}')

    def cut(self) -> None:
        """Kill what serves the connections that are open; new ones are served. Shells and their children stay."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.name().startswith("sshd"):
                    child.kill()


def a_key(path: Path) -> str:
    """Write a private key, and return the public one."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(str(path))
    path.chmod(0o600)
    return key.export_public_key().decode().strip()


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    program = find(SSHD, os.environ)
    if program is None:
        pytest.skip("sshd is missing: apt-get install openssh-server")
    host_key = a_key(tmp_path / "host_key")
    (tmp_path / "authorized").write_text(a_key(tmp_path / "key") + "\n")
    (port,) = free_ports(1)
    config = tmp_path / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress {LOOPBACK}\nHostKey {tmp_path}/host_key\n"
        f"AuthorizedKeysFile {tmp_path}/authorized\n"
        f"PidFile {tmp_path}/pid\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
        "PermitUserEnvironment PATH\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where it locks its unprivileged part in
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([program, "-D", "-e", "-f", str(config)], stderr=log)
    server = Sshd(process, port, host_key, tmp_path / "key", tmp_path)
    try:
        wait_until_now(lambda: b"listening" in (tmp_path / "log").read_bytes())
        yield server
    finally:
        server.end()
