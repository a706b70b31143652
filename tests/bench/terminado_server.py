"""terminado as a baseline: `python -m tests.bench.terminado_server PORT`; one bash for each socket."""

import asyncio
import importlib
import sys
from typing import Any


async def main() -> None:
    """Serve until killed."""
    terminado, web = importlib.import_module("terminado"), importlib.import_module("tornado.web")

    class Index(web.RequestHandler):  # type: ignore[misc,name-defined]
        def get(self) -> None:
            self.write("here")

    class Socket(terminado.TermSocket):  # type: ignore[misc,name-defined]
        def check_origin(self, origin: str) -> bool:
            return True

    manager: Any = terminado.UniqueTermManager(shell_command=["bash", "--norc"])
    app = web.Application([("/", Index), ("/shell", Socket, {"term_manager": manager})])
    app.listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
