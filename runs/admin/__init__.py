"""The operators' desk in Django's admin: everything can be read, nothing is changed but through the services."""

from django.contrib import admin
from django.utils.translation import gettext_lazy

from runs.admin import compensations, identity, ledger, runs, shells

admin.site.site_header = admin.site.site_title = gettext_lazy("Outlive: operators' desk")

__all__ = ["compensations", "identity", "ledger", "runs", "shells"]
