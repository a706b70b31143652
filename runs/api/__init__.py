"""The HTTP API, /api/v1: a thin layer over services and selectors."""
