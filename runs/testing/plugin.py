"""The pytest plugin: it registers the fixtures once Django is set up. Without Django's settings it does nothing.

Coverage and other plugins see our modules only then, so nothing of Django is imported too early.
"""

import importlib

import pytest
from django.conf import settings

FIXTURES = "runs.testing.fixtures"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Add the fixtures, after pytest-django has set Django up."""
    is_ours = settings.configured and "runs" in settings.INSTALLED_APPS
    if is_ours and not config.pluginmanager.has_plugin(FIXTURES):
        config.pluginmanager.register(importlib.import_module(FIXTURES), FIXTURES)
