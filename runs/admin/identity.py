"""Tenants, their members and their API tokens: what an admin of a tenant manages.

People are named by typing their user name, so that nobody can list the people of other tenants.
"""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from runs.access import SCOPES, issue_token
from runs.admin.desk import Listed, managed_tenants
from runs.models import ApiToken, AuditEntry, Membership, Tenant


class Managed(Listed):
    """Rows of the tenants that the visitor manages."""

    tenant_path = "tenant"

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show the app to those who manage a tenant."""
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Managers see; which rows, get_queryset says."""
        user: Any = request.user
        return bool(user.is_active and user.is_staff and managed_tenants(request).exists())

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Managers add."""
        return self.has_view_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Managers change."""
        return self.has_view_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Managers delete."""
        return self.has_view_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows of the managed tenants."""
        return super().get_queryset(request).filter(**{f"{self.tenant_path}__in": managed_tenants(request)})

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer only managed tenants."""
        if db_field.name == "tenant":
            kwargs["queryset"] = managed_tenants(request)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)


class NamedUserForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic at run time
    """A form that names its person by typing."""

    username = forms.CharField(label=gettext_lazy("User name"), max_length=150)

    def clean_username(self) -> str:
        """Find the person. Raises: ValidationError."""
        name: str = self.cleaned_data["username"]
        person = get_user_model().objects.filter(username=name).first()
        if person is None:
            raise forms.ValidationError(_("There is no person of this name."))
        self.instance.user = person
        return name


@admin.register(Tenant)
class TenantAdmin(Managed):
    """Tenants: made by superusers, renamed by their admins, never deleted here."""

    tenant_path = "pk"
    list_display = ("name", "slug", "created_at")
    fields = ("name", "slug")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the managed tenants."""
        return managed_tenants(request).distinct()

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Superusers make tenants."""
        user: Any = request.user
        return bool(user.is_active and user.is_superuser)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A tenant is kept: its runs and its audit point to it."""
        return False


class MembershipForm(NamedUserForm):
    """Who belongs to a tenant, with which role."""

    class Meta:
        model = Membership
        fields = ("tenant", "role")

    def clean(self) -> dict[str, Any]:
        """Refuse a second membership. Raises: ValidationError."""
        cleaned = super().clean() or {}
        tenant, person = cleaned.get("tenant"), getattr(self.instance, "user", None)
        if tenant and person and Membership.objects.filter(tenant=tenant, user=person).exists():
            raise forms.ValidationError(_("This person belongs to the workspace already. Change the role there."))
        return cleaned


@admin.register(Membership)
class MembershipAdmin(Managed):
    """Members. A change of role takes effect within seconds, also on open streams."""

    list_display = ("user", "tenant", "role", "created_at")
    list_filter = ("role",)
    list_select_related = ("user", "tenant")
    search_fields = ("user__username",)
    readonly_fields = ("user", "tenant")

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Name the person when a membership is made; afterwards only the role changes."""
        if obj is None:
            kwargs["form"] = MembershipForm
        return super().get_form(request, obj, change=change, **kwargs)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Give the fields of the form."""
        return ("user", "tenant", "role") if obj else ("tenant", "username", "role")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Keep person and tenant of a membership."""
        return self.readonly_fields if obj else ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save, with an entry in the audit."""
        super().save_model(request, obj, form, change)
        audit(
            request,
            obj.tenant,
            "member.role" if change else "member.added",
            obj.user.get_username(),
            {"role": obj.role},
        )

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete, with an entry in the audit."""
        audit(request, obj.tenant, "member.removed", obj.user.get_username(), {"role": obj.role})
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Delete one by one, so that each has its entry."""
        for membership in queryset:
            self.delete_model(request, membership)


class TokenForm(NamedUserForm):
    """For whom a token is made, what it may do, and for how long."""

    scopes = forms.MultipleChoiceField(
        label=gettext_lazy("Scopes"), choices=[(s, s) for s in sorted(SCOPES)], widget=forms.CheckboxSelectMultiple
    )
    days = forms.IntegerField(label=gettext_lazy("Days"), min_value=1, max_value=3650, initial=90, required=False,
                              help_text=gettext_lazy("Empty: it does not expire."))  # fmt: skip

    class Meta:
        model = ApiToken
        fields = ("tenant", "name")

    def clean(self) -> dict[str, Any]:
        """Refuse a token for somebody who is no member. Raises: ValidationError."""
        cleaned = super().clean() or {}
        tenant, person = cleaned.get("tenant"), getattr(self.instance, "user", None)
        if tenant and person and not Membership.objects.filter(tenant=tenant, user=person).exists():
            raise forms.ValidationError(_("This person does not belong to the workspace."))
        return cleaned


@admin.register(ApiToken)
class ApiTokenAdmin(Managed):
    """API tokens: made here, shown once, revoked here, never changed."""

    list_display = ("name", "user", "tenant", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at")
    list_select_related = ("user", "tenant")
    actions = ("revoke",)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A token that is made stays as it is; the list's action revokes it."""
        return obj is None and self.has_view_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A token is revoked, not deleted: the audit names it."""
        return False

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Use our form when a token is made."""
        if obj is None:
            kwargs["form"] = TokenForm
        return super().get_form(request, obj, change=change, **kwargs)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Give the fields; the digest is nobody's business."""
        if obj is None:
            return ("tenant", "username", "name", "scopes", "days")
        return ("name", "user", "tenant", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Make the token through access.issue_token; the text lives until the answer is sent."""
        days = form.cleaned_data["days"]
        lifetime = timedelta(days=days) if days else None
        made, text = issue_token(
            user=obj.user, tenant=obj.tenant, name=obj.name, scopes=form.cleaned_data["scopes"], lifetime=lifetime
        )
        obj.pk, obj.token_text = made.pk, text
        audit(request, obj.tenant, "token.made", obj.name, {"user": obj.user.get_username(), "scopes": made.scopes})

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        """Show the token's text, this once."""
        context = {**self.admin_site.each_context(request), "title": _("The token"), "token": obj.token_text,
                   "opts": self.model._meta}  # fmt: skip
        answer = render(request, "admin/runs/apitoken/made.html", context)
        answer["Cache-Control"] = "no-store"
        return answer

    @admin.action(description=gettext_lazy("Revoke the selected tokens"))
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        """Revoke tokens: they are refused from their next request on."""
        for token in queryset.filter(revoked_at__isnull=True).select_related("tenant"):
            ApiToken.objects.filter(pk=token.pk).update(revoked_at=timezone.now())
            audit(request, token.tenant, "token.revoked", token.name, {})


def audit(request: HttpRequest, tenant: Tenant, action: str, subject: str, detail: dict[str, Any]) -> None:
    """Add an entry to the tenant's audit."""
    user: Any = request.user
    AuditEntry.objects.create(tenant=tenant, user=user, action=action, subject=subject[:60], detail=detail)
