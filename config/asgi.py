"""The ASGI application: pages and API through Django, sockets through streaming/."""

import os

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django_application = get_asgi_application()  # sets Django up; what follows needs its tables

from streaming.origin import OriginCheck  # noqa: E402
from streaming.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {"http": django_application, "websocket": OriginCheck(URLRouter(websocket_urlpatterns))}
)
