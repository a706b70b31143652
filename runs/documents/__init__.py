"""Uploaded files as text: reading them, finding passages in them, and the tools that agents use for it."""
