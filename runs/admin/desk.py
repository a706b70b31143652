"""What all our admin pages share: who sees which rows, and that no row of the domain is written by hand.

Staff see only the tenants where they are operator or admin, a superuser sees all. Django's own model permissions do
not count here: a role in a tenant does.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import ERROR_FLAG
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db import DataError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString

from runs.access import Actor, actor_for, operator_tenants
from runs.frames import dump
from runs.models import Role, Tenant
from runs.pages.words import STATUS

if TYPE_CHECKING:  # Django's classes are generic for the type checker only
    Rows = admin.ModelAdmin[Any]
    Lines = admin.TabularInline[Any, Any]
else:
    Rows = admin.ModelAdmin
    Lines = admin.TabularInline

MOST_JSON_CHARS = 20_000


def is_operator(request: HttpRequest) -> bool:
    """Say whether the visitor is an operator or admin of any tenant, or a superuser."""
    user: Any = request.user
    return bool(user.is_active and user.is_staff and (user.is_superuser or operator_tenants(user)))


def actor_in(request: HttpRequest, tenant: Tenant) -> Actor:
    """Give the visitor as an actor of a tenant. A superuser acts as its admin; what they do is audited like any.

    Raises: PermissionDenied for somebody else who is no member.
    """
    user: Any = request.user
    if user.is_superuser:
        return Actor(user, tenant, Role.ADMIN)
    actor = actor_for(user, tenant)
    if actor is None:
        raise PermissionDenied
    return actor


def managed_tenants(request: HttpRequest) -> QuerySet[Tenant]:
    """Return the tenants whose members and tokens the visitor manages."""
    user: Any = request.user
    if user.is_superuser:
        return Tenant.objects.all()
    return Tenant.objects.filter(memberships__user=user, memberships__role=Role.ADMIN)


def as_json(value: Any) -> SafeString:
    """Show a JSON value, bounded."""
    text = dump(value) if value is not None else ""
    if len(text) > MOST_JSON_CHARS:
        text = text[:MOST_JSON_CHARS] + " …"
    return format_html("<code>{}</code>", text)


def status_text(status: str) -> str:
    """Say a run's status in the words of the pages."""
    return str(STATUS[status].text) if status in STATUS else status


class Listed(Rows):
    """Rows whose list takes no nonsense in its address for a failure of ours."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Answer a filter that no database reads as Django answers one that it does not know: by the mark `e`.

        Raises: BadRequest where rows are named for an action by what is the id of none.
        """
        for row_id in request.POST.getlist(ACTION_CHECKBOX_NAME):
            try:
                self.opts.pk.clean(row_id, None)
            except ValidationError as error:
                raise BadRequest("This is no id of a row.") from error
        try:
            return super().changelist_view(request, extra_context)
        except (ValueError, OverflowError, DataError):
            if request.method != "GET" or not request.GET or ERROR_FLAG in request.GET:
                raise
            return HttpResponseRedirect(f"{request.path}?{ERROR_FLAG}=1")


class ReadOnly(Listed):
    """Rows that operators read and nobody writes by hand. `tenant_path` leads from a row to its tenant."""

    tenant_path = "tenant"
    actions: Sequence[str] | None = None

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows are made by the services."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows are changed by the services."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows are kept."""
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Operators read; which rows, get_queryset says."""
        return is_operator(request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show the app to operators."""
        return is_operator(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows of the visitor's tenants; all for a superuser."""
        rows = super().get_queryset(request)
        user: Any = request.user
        if user.is_superuser:
            return rows
        return rows.filter(**{f"{self.tenant_path}__in": operator_tenants(user)})


class ReadOnlyLines(Lines):
    """Lines below a row, readable only. The row's own queryset has decided about the tenant."""

    extra = 0
    can_delete = False
    show_change_link = True

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Lines are made by the services."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Lines are changed by the services."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Lines are kept."""
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Operators read."""
        return is_operator(request)
