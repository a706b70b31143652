"""Make the tables, and a tenant with one member, and print a token of theirs: `python -m tests.bench.prepare`."""

import os
import secrets

import django
from django.core.management import call_command


def main() -> None:
    """Do it; the token is the last line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    from django.contrib.auth import get_user_model

    from runs.access import issue_token
    from runs.models import Membership, Role, Tenant

    call_command("migrate", interactive=False, verbosity=0)
    name = f"bench-{secrets.token_hex(4)}"
    tenant = Tenant.objects.create(slug=name, name="Benchmark")
    user = get_user_model().objects.create_user(name)
    Membership.objects.create(tenant=tenant, user=user, role=Role.RUNNER)
    scopes = ["runs:read", "runs:write", "runs:cancel", "shells:view", "shells:write"]
    print(issue_token(user=user, tenant=tenant, name="bench", scopes=scopes)[1])


if __name__ == "__main__":
    main()
