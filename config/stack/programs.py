"""The programs of Outlive: which ones `make up` starts, with which addresses, and how each shows that it is ready."""

import http.client
import json
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from config.stack.children import ChildSpec
from config.stack.logs import appended_since_now
from config.stack.node import node_program
from config.stack.ports import LOOPBACK, free_ports
from config.stack.state import CHECKOUT, LONGEST_TERMINAL_NAME, StateFolder, load_demo, socket_folder, write_private
from config.stack.takeover import STACK_VARIABLE

PYTHON = sys.executable
ANSWER_SECONDS = 2.0
READY_SECONDS = 120.0
WARDEN = CHECKOUT / "tools" / "processes" / "warden.py"
SCREENS = CHECKOUT / "tools" / "processes" / "terminals" / "screens" / "main.mjs"
# All that the host of terminals gets: what runs in a shell can read its parent's environment where it is the same user.
HOST_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", STACK_VARIABLE)


@dataclass(frozen=True)
class Addresses:
    """Where the parts listen: ports on the loopback interface."""

    web: int
    model: int
    target: int
    mail: int

    @property
    def base_url(self) -> str:
        return f"http://{LOOPBACK}:{self.web}"

    @property
    def target_url(self) -> str:
        return f"http://{LOOPBACK}:{self.target}"


def choose_addresses(web_port: int) -> Addresses:
    return Addresses(web_port, *free_ports(3))


def program_environ(environ: Mapping[str, str], state: StateFolder, addresses: Addresses) -> dict[str, str]:
    """Return the environment that all programs get. The demo target always wins: a demo sends no real mail."""
    return dict(environ) | {
        "OUTLIVE_BASE_URL": addresses.base_url,
        "OUTLIVE_LOCAL_MODEL_URL": f"http://{LOOPBACK}:{addresses.model}",
        "OUTLIVE_STATE": str(state.root),
        "OUTLIVE_WORKSPACES": str(state.workspaces),
        "OUTLIVE_TERMINALS": str(socket_folder(state.root / "terminals", longest_name=LONGEST_TERMINAL_NAME)),
        "TARGET_URL": addresses.target_url,
        "MAIL_LOOKUP_URL": addresses.target_url,
        "SMTP_HOST": LOOPBACK,
        "SMTP_PORT": str(addresses.mail),
        "SMTP_FROM": "outlive@demo.invalid",
        "OUTLIVE_WORKERS": environ.get("OUTLIVE_WORKERS") or "1",
        "PYTHONUNBUFFERED": "1",
    }


def child_specs(environ: Mapping[str, str], state: StateFolder, addresses: Addresses) -> list[ChildSpec]:
    """Return the programs in the order of their start; they are stopped in the reverse order, the web first."""

    def spec(
        name: str, *argv: str, ready: Callable[[], bool] | None = None, stop_within_seconds: float = 1.5
    ) -> ChildSpec:
        return ChildSpec(
            name=name,
            argv=(PYTHON, *argv),
            marker=" ".join(argv[:2]),
            environ=environ,
            cwd=CHECKOUT,
            ready=ready,
            ready_within_seconds=READY_SECONDS,
            stop_signal=signal.SIGTERM,
            stop_within_seconds=stop_within_seconds,
        )

    def says(name: str, word: str) -> Callable[[], bool] | None:
        # With a higher level the word is never written; then they are taken to be ready.
        level = environ.get("OUTLIVE_LOG_LEVEL", "INFO").upper()
        return appended_since_now(state.log(name), word) if level in ("DEBUG", "INFO") else None

    folder = environ.get("OUTLIVE_TERMINALS") or str(state.root / "terminals")
    terminals = ChildSpec(
        name="terminals",
        argv=(PYTHON, "-I", "-S", str(WARDEN), "terminals", folder),
        marker="warden.py terminals",
        environ={name: environ[name] for name in HOST_ENVIRONMENT if name in environ},
        ready=lambda: is_served(f"{folder}/host.sock", socket.SOCK_SEQPACKET),
        ready_within_seconds=READY_SECONDS,
        stop_within_seconds=5.0,  # shells get HUP, three seconds, and KILL
    )
    screens = ChildSpec(
        name="screens",
        argv=(node_program(Path(sys.prefix), environ), str(SCREENS), folder),
        marker="screens/main.mjs",
        environ={name: environ[name] for name in HOST_ENVIRONMENT if name in environ},
        ready=lambda: is_served(f"{folder}/screens.sock", socket.SOCK_STREAM),
        ready_within_seconds=READY_SECONDS,
        stop_within_seconds=3.0,
    )
    target = ("-m", "tools.target", "--port", str(addresses.target), "--smtp-port", str(addresses.mail))
    model = ("-m", "tools.models.server", "--port", str(addresses.model), "--die-with-parent")
    web = ("-m", "streaming.server", "--host", LOOPBACK, "--port", str(addresses.web))
    kept = ("--state", str(state.root / "target.jsonl"), "--die-with-parent")
    supervisor = ("manage.py", "outlive_supervisor")
    workers = ("manage.py", "outlive_workers")
    return [
        spec("target", *target, *kept, ready=lambda: is_listening(addresses.target)),
        spec("model", *model, ready=lambda: is_listening(addresses.model)),
        spec("supervisor", *supervisor, ready=says("supervisor", "supervisor.started"), stop_within_seconds=3.0),
        terminals,
        screens,
        spec("workers", *workers, ready=says("workers", "worker.ready"), stop_within_seconds=5.0),
        spec("web", *web, ready=lambda: answers_http(addresses.web), stop_within_seconds=5.0),
    ]


def is_listening(port: int) -> bool:
    """Tell whether somebody accepts connections on the port."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=ANSWER_SECONDS):
            return True
    except OSError:
        return False


def is_served(path: str, kind: socket.SocketKind) -> bool:
    """Tell whether somebody accepts connections at a local socket."""
    try:
        with socket.socket(socket.AF_UNIX, kind) as probe:
            probe.connect(path)
            return True
    except OSError:
        return False


def answers_http(port: int, path: str = "/readyz") -> bool:
    """Tell whether the web server answers the page with anything but a server error."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def prepare_argv() -> list[str]:
    """Return the command that makes tables, static files and the demo user, and prints what `keep_demo` reads."""
    return [PYTHON, "-m", "config.stack.prepare"]


def keep_demo(state: StateFolder, answer: str, addresses: Addresses) -> dict[str, str | None]:
    """Join what the bootstrap command said with what we kept: it tells a password only when it made the user.

    Returns user, password, token, url and target_url; the file is readable by its owner only. Raises ValueError when
    the last line of the answer is no JSON object.
    """
    lines = answer.strip().splitlines()
    said = json.loads(lines[-1] if lines else "")
    if not isinstance(said, dict):
        raise ValueError("no JSON object")
    known = load_demo(state)
    same_user = known.get("user") in (None, said.get("user"))
    demo = {"user": said.get("user"), "url": addresses.base_url, "target_url": addresses.target_url}
    for name in ("password", "token"):
        demo[name] = said.get(name) or (known.get(name) if same_user else None)
    write_private(state.demo, json.dumps(demo))
    # The command line of this checkout reads this one.
    write_private(state.client, json.dumps({"base_url": addresses.base_url, "token": demo["token"]}))
    return demo
