"""WebSocket addresses."""

from typing import Any, cast

from django.urls import path, re_path

from streaming.consumers.feed import feed_socket
from streaming.consumers.run import run_socket
from streaming.consumers.shell import shell_socket
from streaming.consumers.socket import unknown_address

# Django's path() is typed for views; Channels' URLRouter takes ASGI applications in their place.
websocket_urlpatterns = [
    path("ws/v1/runs/", cast(Any, feed_socket)),
    path("ws/v1/runs/<str:run_id>/", cast(Any, run_socket)),
    path("ws/v1/shells/<str:shell_id>/", cast(Any, shell_socket)),
    re_path(r"", cast(Any, unknown_address)),  # URLRouter itself would raise
]
