"""The settings of the server under test: ours, and one more address that the benchmark uses as its floor."""

from config.settings import *  # noqa: F403

ROOT_URLCONF = "tests.bench.urls"
