"""What shells promise, shown on the real installation: `make chaos ARGS=shells`."""
