"""People of two tenants, as actors."""

import pytest
from django.contrib.auth import get_user_model

from runs.access import Actor
from runs.models import Membership, Role, Tenant


def make_actor(name: str, tenant: Tenant, role: Role = Role.RUNNER) -> Actor:
    user = get_user_model().objects.create_user(name, password=None)
    Membership.objects.create(tenant=tenant, user=user, role=role)
    return Actor(user, tenant, role)


@pytest.fixture
def tenant(db: None) -> Tenant:
    return Tenant.objects.create(slug="harbourlight", name="Harbourlight")


@pytest.fixture
def owner(tenant: Tenant) -> Actor:
    return make_actor("owner", tenant)


@pytest.fixture
def teammate(tenant: Tenant) -> Actor:
    return make_actor("teammate", tenant)


@pytest.fixture
def operator(tenant: Tenant) -> Actor:
    return make_actor("operator", tenant, Role.OPERATOR)


@pytest.fixture
def viewer(tenant: Tenant) -> Actor:
    return make_actor("viewer", tenant, Role.VIEWER)


@pytest.fixture
def outsider(db: None) -> Actor:
    return make_actor("outsider", Tenant.objects.create(slug="elsewhere", name="Elsewhere"), Role.ADMIN)
