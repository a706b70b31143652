"""`up` with small programs in the place of ours: `small_stack.py PORT [crash|fail-prepare|die-at-start|stubborn]`."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from config.stack.children import ChildSpec
from config.stack.console import complain
from config.stack.errors import StackError
from config.stack.programs import Addresses, answers_http
from config.stack.state import StateFolder
from config.stack.up import Plan, run_up

WEB = """
import http.server, os, pathlib, sys
pathlib.Path(sys.argv[2], 'web.pid').write_text(str(os.getpid()))
http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
# Has a child of its own, in another session, that knows nothing of parent-death signals.
WORKERS = """
import os, pathlib, signal, subprocess, sys
if 'stubborn' in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
grand = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'], start_new_session=True)
pathlib.Path(sys.argv[1], 'grandchild.pid').write_text(str(grand.pid))
pathlib.Path(sys.argv[1], 'workers.pid').write_text(str(os.getpid()))
print('ERROR: the worker says something bad', flush=True)
if 'crash' in sys.argv and not pathlib.Path(sys.argv[1], 'crashed').exists():
    pathlib.Path(sys.argv[1], 'crashed').touch()
    sys.stdin = None
    import time
    while not pathlib.Path(sys.argv[1], 'crash-now').exists():
        time.sleep(0.01)
    sys.exit(3)
if 'die-at-start' in sys.argv:
    sys.exit('no such command: workers')
signal.pause()
"""
PREPARE = """
import json, os, psycopg, redis
with psycopg.connect(os.environ['DATABASE_URL']) as db:
    db.execute('create table if not exists visit (id int generated always as identity)')
    db.execute('insert into visit default values')
    visits = db.execute('select count(*) from visit').fetchone()[0]
redis.Redis.from_url(os.environ['REDIS_URL']).incr('visits')
password, token = ('pass-1', 'tok') if visits == 1 else (None, None)
print('a line before')
print(json.dumps({'user': 'demo', 'password': password, 'token': token}))
"""


def main() -> int:
    port, words = int(sys.argv[1]), sys.argv[2:]
    python = sys.executable

    def prepare() -> list[str]:
        return [python, "-c", "raise SystemExit('relation does not fit')" if "fail-prepare" in words else PREPARE]

    def children(environ: Mapping[str, str], state: StateFolder, addresses: Addresses) -> list[ChildSpec]:
        root = str(state.root)
        workers = (python, "-c", WORKERS, root, *words)

        def has_begun() -> bool:  # a program that dies at its start has never begun, however long it takes to die
            return "die-at-start" not in words and (state.root / "workers.pid").exists()

        web = (python, "-c", WEB, str(addresses.web), root)
        return [
            ChildSpec("workers", workers, root, environ, cwd=Path(root), ready=has_begun, stop_within_seconds=1.0),
            ChildSpec("web", web, root, environ, cwd=Path(root), ready=lambda: answers_http(addresses.web)),
        ]

    try:
        return run_up(os.environ, port=port, plan=Plan(prepare, children))
    except StackError as error:
        complain(f"outlive: {error}")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
