"""The sockets of shells."""
