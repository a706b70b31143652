"""Benchmarks: `make bench`. Own clients, own baselines, one JSON line a row (docs/PERFORMANCE.md)."""
