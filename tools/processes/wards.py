"""Starts commands under wards (Linux): keeps the one resident of this worker alive and sends it requests."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from tools.processes.links import Message, WardLink
from tools.processes.readiness import wait_writable
from tools.processes.resident import REQUEST_BYTES
from tools.processes.results import CommandNotStarted

WARDEN = Path(__file__).with_name("warden.py")
_RESIDENT_EXIT_SECONDS = 2.0


class WardLauncher:
    """The Launcher of Linux. The resident starts with the first command and again should somebody kill it."""

    def __init__(self) -> None:
        self._resident: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._one_at_a_time = asyncio.Lock()

    async def start(self) -> None:
        """Start the resident, so that the first command does not pay for its interpreter (about 30 ms)."""
        async with self._one_at_a_time:
            self._ensure_resident()

    async def launch(self, request: Message, fds: list[int]) -> WardLink:
        text = json.dumps(request).encode()
        program = request["argv"][0]
        if len(text) > REQUEST_BYTES:
            raise CommandNotStarted(program, f"arguments and environment are over {REQUEST_BYTES} bytes")
        ours, wards = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with wards:
            try:
                async with self._one_at_a_time:
                    await self._send(text, [wards.fileno(), *fds])
            except BaseException:
                ours.close()
                raise
        return WardLink(ours, program=program)

    async def close(self) -> None:
        """End the resident. Commands that still run are killed by their own wards when their links close."""
        async with self._one_at_a_time:
            await asyncio.to_thread(self._drop_resident)

    async def _send(self, text: bytes, fds: list[int]) -> None:
        for last_try in (False, True):
            requests = self._ensure_resident()
            try:
                while True:
                    try:
                        socket.send_fds(requests, [text], fds)
                    except BlockingIOError:
                        await wait_writable(requests.fileno())
                    else:
                        return
            except OSError:
                self._drop_resident()  # it was killed: its wards go on, we start another one
                if last_try:
                    raise

    def _ensure_resident(self) -> socket.socket:
        if self._resident is not None and self._requests is not None and self._resident.poll() is None:
            return self._requests
        self._drop_resident()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * REQUEST_BYTES)
        with theirs:
            argv = [sys.executable, "-I", "-S", str(WARDEN), "serve", str(theirs.fileno()), str(os.getpid())]
            # Not through asyncio: the loop must not need to live for the resident to be waited for.
            self._resident = subprocess.Popen(
                argv, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env={"LANG": "C.UTF-8"}, cwd="/"
            )
        ours.setblocking(False)
        self._requests = ours
        return ours

    def _drop_resident(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        if self._resident is not None:
            try:
                self._resident.wait(_RESIDENT_EXIT_SECONDS)
            except subprocess.TimeoutExpired:
                self._resident.kill()
                self._resident.wait()
            self._resident = None
