"""Executing runs: a worker that carries many of them, its lease keeper, its event writer, and the agents' context."""
