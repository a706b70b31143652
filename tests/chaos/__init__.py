"""The crash matrix: scenario × place × fault, with real processes and services of its own (`make chaos`)."""
