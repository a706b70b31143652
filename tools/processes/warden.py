"""The program that commands and terminals live under. stdlib only.

    python -I -S warden.py serve FD WORKER_PID     commands of one worker
    python -I -S warden.py terminals FOLDER        terminals of this machine, whoever asks for them

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
    """Serve the worker at the other end of FD until it dies, or whoever comes to FOLDER. Returns the exit status."""
    arguments = sys.argv[1:]
    if len(arguments) != {"serve": 3, "terminals": 2}.get(arguments[0] if arguments else ""):
        sys.stderr.write("usage: warden.py serve FD WORKER_PID | warden.py terminals FOLDER\n")
        return 2
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path.insert(0, above)
    name = "processes.resident" if arguments[0] == "serve" else "processes.terminals.host"
    module = importlib.import_module(name)
    sys.path.remove(above)
    if arguments[0] == "serve":
        module.serve(socket.socket(fileno=int(arguments[1])), worker_pid=int(arguments[2]))
        return 0
    return int(module.serve(arguments[1]))


if __name__ == "__main__":
    sys.exit(main())
