"""The command line: `python -m config.stack up | down | manage | services`."""

import argparse
import os
import sys
from pathlib import Path

from config.stack.console import complain
from config.stack.errors import StackError
from config.stack.manage import run_manage
from config.stack.ports import parse_port
from config.stack.services import run_with_services
from config.stack.up import run_down, run_up

DEFAULT_PORT = "8000"


def main(argv: list[str]) -> int:
    """Run one command. Returns its exit code; an error of ours is one line on the standard error."""
    options = _parser().parse_args(argv)
    try:
        if options.command == "up":
            return run_up(os.environ, port=parse_port(options.port or os.environ.get("PORT") or DEFAULT_PORT))
        if options.command == "down":
            return run_down(os.environ)
        if options.command == "manage":
            return run_manage(options.argv, os.environ)
        return run_with_services(
            options.argv, os.environ, root=options.state and Path(options.state).absolute(), fast=options.fast
        )
    except StackError as error:
        complain(f"outlive: {error}")
        return error.exit_code
    except KeyboardInterrupt:  # before our own handlers were in place, so nothing runs yet
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m config.stack", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start everything and stay until Ctrl-C")
    up.add_argument("--port", help=f"of the web server (default: $PORT, else {DEFAULT_PORT})")
    commands.add_parser("down", help="stop the stack of this checkout")
    manage = commands.add_parser("manage", help="run a command of manage.py on what runs in this checkout")
    manage.add_argument("argv", nargs=argparse.REMAINDER, help="the command and its options")
    services = commands.add_parser("services", help="run a command with PostgreSQL and Valkey")
    services.add_argument("--state", help="folder that keeps the data (default: a temporary one)")
    services.add_argument("--fast", action="store_true", help="no crash safety, for tests")
    services.add_argument("argv", nargs="+", help="-- and the command")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
