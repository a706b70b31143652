"""The ASGI application: pages and API through Django, sockets through streaming/."""

import os

import django
from channels.routing import ProtocolTypeRouter, URLRouter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)  # what follows needs the tables

from streaming.handler import OneHopHandler  # noqa: E402
from streaming.origin import OriginCheck  # noqa: E402
from streaming.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter({"http": OneHopHandler(), "websocket": OriginCheck(URLRouter(websocket_urlpatterns))})
