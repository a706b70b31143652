"""The Django app of the domain."""

from django.apps import AppConfig


class RunsConfig(AppConfig):
    """Runs and everything that belongs to them."""

    name = "runs"
    verbose_name = "Outlive"
    default_auto_field = "django.db.models.BigAutoField"
