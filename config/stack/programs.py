"""The programs of Outlive: which ones `make up` starts, with which addresses, and how each shows that it is ready."""

import http.client
import json
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from config.stack.children import ChildSpec
from config.stack.ports import LOOPBACK, free_ports
from config.stack.state import CHECKOUT, StateFolder, load_demo, write_private

PYTHON = sys.executable
ANSWER_SECONDS = 2.0


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


def choose_addresses(web_port: int) -> Addresses:
    return Addresses(web_port, *free_ports(3))


def program_environ(environ: Mapping[str, str], state: StateFolder, addresses: Addresses) -> dict[str, str]:
    """Return the environment that all programs get. The demo target always wins: a demo sends no real mail."""
    target = f"http://{LOOPBACK}:{addresses.target}"
    return dict(environ) | {
        "OUTLIVE_BASE_URL": addresses.base_url,
        "OUTLIVE_LOCAL_MODEL_URL": f"http://{LOOPBACK}:{addresses.model}",
        "OUTLIVE_STATE": str(state.root),
        "OUTLIVE_WORKSPACES": str(state.workspaces),
        "TARGET_URL": target,
        "MAIL_LOOKUP_URL": target,
        "SMTP_HOST": LOOPBACK,
        "SMTP_PORT": str(addresses.mail),
        "SMTP_FROM": "outlive@demo.invalid",
        "OUTLIVE_WORKERS": environ.get("OUTLIVE_WORKERS") or "1",
        "PYTHONUNBUFFERED": "1",
    }


def child_specs(environ: Mapping[str, str], state: StateFolder, addresses: Addresses) -> list[ChildSpec]:
    """Return the programs in the order of their start; they are stopped in the reverse order, the web first."""

    def spec(name: str, *argv: str, ready_port: int | None = None, stop_within_seconds: float = 1.5) -> ChildSpec:
        return ChildSpec(
            name=name,
            argv=(PYTHON, *argv),
            marker=" ".join(argv[:2]),
            environ=environ,
            cwd=CHECKOUT,
            ready=None if ready_port is None else lambda: is_listening(ready_port),
            stop_signal=signal.SIGTERM,
            stop_within_seconds=stop_within_seconds,
        )

    model, target, mail = str(addresses.model), str(addresses.target), str(addresses.mail)
    record = str(state.root / "target.jsonl")
    web = spec(
        "web", "-m", "streaming.server", "--host", LOOPBACK, "--port", str(addresses.web), stop_within_seconds=5.0
    )
    return [
        spec("target", "-m", "tools.target", "--port", target, "--smtp-port", mail, "--state", record,
             "--die-with-parent", ready_port=addresses.target),
        spec("model", "-m", "tools.models.server", "--port", model, "--die-with-parent", ready_port=addresses.model),
        spec("supervisor", "manage.py", "outlive_supervisor", stop_within_seconds=3.0),
        spec("workers", "manage.py", "outlive_workers", stop_within_seconds=5.0),
        _with_ready_page(web, addresses.web),
    ]  # fmt: skip


def _with_ready_page(web: ChildSpec, port: int) -> ChildSpec:
    return ChildSpec(**(web.__dict__ | {"ready": lambda: answers_http(port)}))


def is_listening(port: int) -> bool:
    """Tell whether somebody accepts connections on the port."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=ANSWER_SECONDS):
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


def keep_demo(state: StateFolder, answer: str, base_url: str) -> dict[str, str | None]:
    """Join what the bootstrap command said with what we kept: it tells a password only when it made the user.

    Returns user, password, token and url; the file is readable by its owner only. Raises ValueError when the last
    line of the answer is no JSON object.
    """
    lines = answer.strip().splitlines()
    said = json.loads(lines[-1] if lines else "")
    if not isinstance(said, dict):
        raise ValueError("no JSON object")
    known = load_demo(state)
    same_user = known.get("user") in (None, said.get("user"))
    demo = {"user": said.get("user"), "url": base_url}
    for name in ("password", "token"):
        demo[name] = said.get(name) or (known.get(name) if same_user else None)
    write_private(state.demo, json.dumps(demo))
    # The command line of this checkout reads this one.
    write_private(state.client, json.dumps({"base_url": base_url, "token": demo["token"]}))
    return demo
