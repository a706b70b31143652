"""The web server: `python -m streaming.server --host H --port P`.

Daphne that waits for slow sockets (streaming/flow.py), on uvloop, with a drain: at SIGTERM it stops listening, sends
every reader `closing` with a code that means "come back", lets requests finish, and leaves.
"""

import argparse
import asyncio
import contextlib
import gc
import importlib
import logging
import os
import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvloop
from twisted.internet import asyncioreactor

# First of all: whatever imports Twisted's reactor after this finds ours.
loop = uvloop.new_event_loop()
asyncioreactor.install(loop)  # type: ignore[no-untyped-call]

from daphne.endpoints import build_endpoint_description_strings  # noqa: E402
from daphne.ws_protocol import WebSocketProtocol  # noqa: E402
from twisted.internet import defer, reactor  # noqa: E402

from runs import failpoints  # noqa: E402
from runs.conf import limits  # noqa: E402
from streaming.bounds import bound_bodies  # noqa: E402
from streaming.flow import FlowServer, quiet_autobahn  # noqa: E402
from streaming.intake import bound_sockets  # noqa: E402

logger = logging.getLogger("streaming.server")

THREADS = 16  # requests that are being answered at once; each thread has a database connection of its own
DRAIN_SECONDS = 10.0
FLUSH_SECONDS = 1.0
SERVICE_RESTART = 1012
EXIT_PORT_TAKEN = 2


class OutliveServer(FlowServer):
    """One server process. `hubs` is streaming.current, which can be imported only once Django is set up."""

    def __init__(self, application: Any, *, hubs: Any, host: str, port: int) -> None:
        super().__init__(
            application,
            endpoints=build_endpoint_description_strings(host=host, port=port),
            websocket_timeout=-1,
            ping_interval=20,
            ping_timeout=30,
            server_name="",
        )
        self.address = f"{host}:{port}"
        self.max_body_bytes = 4 * limits().max_upload_bytes  # as runs/api/uploads.py: a few whole documents
        self.hubs = hubs
        self.ports: list[Any] = []
        self.someone_left = asyncio.Event()
        self.exit_code = 0

    def listen_success(self, port: Any) -> None:
        """Remember the port, to be able to stop listening, and bound what comes in through it."""
        self.ports.append(port)
        bound_bodies(self)
        bound_sockets(self, port)
        super().listen_success(port)
        logger.info("web.listening", extra={"address": self.address})

    def listen_error(self, failure: Any) -> None:
        """Say in one line what is wrong with the address, and leave."""
        print(f"Cannot listen on {self.address}: {failure.getErrorMessage()}", file=sys.stderr)  # noqa: T201
        self.exit_code = EXIT_PORT_TAKEN
        self.stop()

    def kill_all_applications(self) -> Any:
        """Drain; the reactor waits for the Deferred that this returns."""
        done = defer.Deferred.fromFuture(asyncio.ensure_future(self._drain()))
        done.addErrback(lambda failure: logger.error("web.drain_failed", extra={"error": str(failure.value)}))
        return done

    def protocol_disconnected(self, protocol: Any) -> None:
        """Let a drain see it."""
        super().protocol_disconnected(protocol)
        self.someone_left.set()

    async def _drain(self) -> None:
        for port in self.ports:
            port.stopListening()
        hub = self.hubs.running_hub()
        if hub is not None:
            hub.drain()
        apps = self._running_apps()
        logger.info("web.draining", extra={"connections": len(apps)})
        if apps:
            await asyncio.wait(apps, timeout=DRAIN_SECONDS)
        for protocol in self._sockets():
            if protocol.state == protocol.STATE_OPEN:
                protocol.sendCloseFrame(code=SERVICE_RESTART, reasonUtf8=b"server restart", isReply=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                while self._sockets():
                    self.someone_left.clear()
                    await self.someone_left.wait()
        late = self._running_apps()
        for app in late:
            app.cancel()
        if late:
            await asyncio.wait(late, timeout=FLUSH_SECONDS)
        await self.hubs.stop_hub()

    def _running_apps(self) -> list[Any]:
        apps = [details.get("application_instance") for details in self.connections.values()]
        return [app for app in apps if app is not None and not app.done()]

    def _sockets(self) -> list[Any]:
        """Give the WebSockets that are not gone yet."""
        connected = [p for p, details in self.connections.items() if "disconnected" not in details]
        return [p for p in connected if isinstance(p, WebSocketProtocol)]


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code: 0, or 2 when the address cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m streaming.server", description="The web server of Outlive.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--application", default="config.asgi", help="module that holds `application`")
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    quiet_autobahn(importlib.import_module("autobahn.websocket.protocol"))
    application = importlib.import_module(chosen.application).application
    hubs = importlib.import_module("streaming.current")
    # Loads every view now: else the first request waits for a second of imports.
    importlib.import_module("django.urls").get_resolver().url_patterns  # noqa: B018
    raise_file_limit()
    failpoints.arm_from_environment(os.environ)
    loop.set_default_executor(ThreadPoolExecutor(THREADS, "answer"))
    server = OutliveServer(application, hubs=hubs, host=chosen.host, port=chosen.port)
    reactor.callWhenRunning(_warm_up, hubs)
    gc.freeze()  # what was loaded until here stays: no full collection has to walk through it
    server.run()
    return server.exit_code


def raise_file_limit() -> int:
    """Let this process have as many sockets as the system allows it; the soft limit is often 1,024. Returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # macOS refuses "unlimited"
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _warm_up(hubs: Any) -> None:
    """Start the hub before the first reader, so that the first reader does not wait for it."""
    task = asyncio.ensure_future(hubs.current_hub())
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


if __name__ == "__main__":
    sys.exit(main())
