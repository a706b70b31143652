"""The program that commands live under: `python -I -S warden.py serve FD WORKER_PID`. stdlib only.

It makes this folder importable as the package `processes`, without the `tools` package above it, which needs
third-party packages that `-S` hides.

    resident (one per worker) --fork--> ward (one per command, a subreaper) --fork, exec--> the command

Each fork starts in about a millisecond; a fresh interpreter for each command would take 28 ms.
"""

import importlib
import os
import socket
import sys


def main() -> int:
    """Serve the worker at the other end of FD until it dies. Returns the exit status."""
    if len(sys.argv) != 4 or sys.argv[1] != "serve":
        sys.stderr.write("usage: warden.py serve FD WORKER_PID\n")
        return 2
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path.insert(0, above)
    resident = importlib.import_module("processes.resident")
    sys.path.remove(above)
    resident.serve(socket.socket(fileno=int(sys.argv[2])), worker_pid=int(sys.argv[3]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
