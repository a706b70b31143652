"""A server whose base URL is its proxy's address, and nginx in front of it in four variants."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from tests.proxies.nginx import documented, running_nginx, without_upgrade
from tests.streaming.conftest import Site, free_port, running_server

IDLE_SECONDS = 22  # shorter than nginx's own 60 s, longer than our heartbeat (15 s)


@dataclass(frozen=True)
class Fronts:
    """One server by its own address, and by each proxy's."""

    direct: Site
    nginx: Site  # as documented
    zipping: Site  # compresses whatever it can
    impatient: Site  # cuts what is idle for 22 s
    bare: Site  # nginx of its own, without the lines for WebSocket


@pytest.fixture(scope="module")
def fronts(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronts]:
    """The server and its proxies, for the tests of a module."""
    folder = tmp_path_factory.mktemp("proxies")
    ports = set[int]()
    while len(ports) < 4:
        ports.add(free_port())
    nginx, zipping, impatient, bare = (f"http://127.0.0.1:{port}" for port in ports)
    origins = ",".join((nginx, zipping, impatient, bare))
    environ = {"OUTLIVE_BASE_URL": nginx, "OUTLIVE_TRUSTED_ORIGINS": origins, "OUTLIVE_DRAIN_SECONDS": "7"}
    with running_server(folder, **environ) as direct:
        plain, zipped, short, none = (documented(port=port, upstream=direct.base) for port in ports)
        gzip = "{\n    gzip_types *;\n    gzip_proxied any;\n    gzip_min_length 1;"
        limit = f"{{\n    proxy_read_timeout {IDLE_SECONDS}s;"
        servers = [plain, zipped.replace("{", gzip, 1), short.replace("{", limit, 1), without_upgrade(none)]
        with running_nginx(folder / "nginx", *servers):
            yield Fronts(direct, *(replace(direct, base=base) for base in (nginx, zipping, impatient, bare)))


@pytest.fixture(params=["direct", "nginx", "zipping"])
def front(request: pytest.FixtureRequest, fronts: Fronts, transactional_db: None) -> Site:
    """Each way in that lets everything through, with a database that is emptied after the test."""
    site: Site = getattr(fronts, request.param)
    return site
