"""The sockets of shells: bytes by offset in both directions, one pilot, any number of viewers."""
