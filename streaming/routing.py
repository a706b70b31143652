"""WebSocket addresses."""

from django.urls import path

from streaming.consumers.feed import feed_socket
from streaming.consumers.run import run_socket

websocket_urlpatterns = [
    path("ws/v1/runs/", feed_socket),
    path("ws/v1/runs/<str:run_id>/", run_socket),
]
