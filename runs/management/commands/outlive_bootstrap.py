"""`manage.py outlive_bootstrap`: makes the demo workspace, its user and a token once; prints them as one JSON line."""

import json
import secrets
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand
from django.db import transaction

from runs.access import SCOPES, issue_token
from runs.models import Membership, Role, Tenant


class Command(BaseCommand):
    """Make the demo user if it is not there."""

    help = __doc__

    def handle(self, *args: Any, **options: Any) -> None:
        """Print {"user", "password", "token"}; password and token are null when they exist already."""
        with transaction.atomic():
            tenant, _ = Tenant.objects.get_or_create(slug="demo", defaults={"name": "Demo workspace"})
            users = get_user_model().objects
            user = users.filter(username="demo").first()
            password = token = None
            if user is None:
                password = secrets.token_urlsafe(12)
                user = users.create_superuser("demo", "demo@example.invalid", password)
                Membership.objects.create(tenant=tenant, user=user, role=Role.ADMIN)
                _, token = issue_token(user=user, tenant=tenant, name="make up", scopes=sorted(SCOPES))
        self.stdout.write(json.dumps({"user": "demo", "password": password, "token": token}))
