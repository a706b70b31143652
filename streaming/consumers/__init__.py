"""ASGI applications for the WebSocket addresses."""
