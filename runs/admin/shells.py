"""Where shells may be opened, for those who manage a tenant; and the shells themselves, to be read.

A target names the file of a key on the machine that starts terminals; what is in it is seen by nobody here.
"""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from runs.admin.desk import ReadOnly
from runs.admin.identity import Managed, audit
from runs.models import Role, Shell, ShellTarget
from runs.shells import MOST_COMMAND

FIELDS = (
    "tenant", "name", "kind", "commands", "is_enabled", "min_role", "may_record", "host", "port", "username",
    "host_key", "key_file", "uses_agent", "memory_mb", "processes", "open_files", "cpu_seconds",
)  # fmt: skip
SHOWN = ("name", "kind", "host", "port", "username", "commands", "min_role", "is_enabled", "may_record")


class TargetForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic at run time
    """Commands are typed one a line; people by their user names."""

    commands = forms.CharField(
        label=gettext_lazy("Commands"), required=False, widget=forms.Textarea(attrs={"rows": 4}),
        help_text=gettext_lazy("One a line, the first is the default. None: the login shell, and any command."),
    )  # fmt: skip
    usernames = forms.CharField(
        label=gettext_lazy("People"), required=False,
        help_text=gettext_lazy("User names, separated by blanks. None: everybody with the role."),
    )  # fmt: skip

    class Meta:
        model = ShellTarget
        fields = FIELDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk and not self.instance._state.adding:
            self.initial["commands"] = "\n".join(self.instance.commands)
            self.initial["usernames"] = " ".join(p.get_username() for p in self.instance.people.all())

        who: Any = self.fields["min_role"]
        who.choices = [(role.value, role.label) for role in Role if role is not Role.VIEWER]

    def clean(self) -> dict[str, Any] | None:
        """See that another machine can be reached, and known again. Raises: ValidationError."""
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("kind") == "ssh":
            missing = [name for name in ("host", "username", "host_key") if not cleaned.get(name)]
            if missing or not (cleaned.get("key_file") or cleaned.get("uses_agent")):
                raise ValidationError(_("An SSH target needs host, user name, host key, and a key file or the agent."))
        return cleaned

    def clean_commands(self) -> list[str]:
        """Read the lines. Raises: ValidationError for one that is too long."""
        lines = [line.strip() for line in self.cleaned_data["commands"].splitlines() if line.strip()]
        if any(len(line) > MOST_COMMAND for line in lines):
            raise ValidationError(_("A command is too long: at most %(n)s characters.") % {"n": MOST_COMMAND})
        return lines

    def clean_usernames(self) -> list[Any]:
        """Find the people. Raises: ValidationError naming who is not there."""
        names = self.cleaned_data["usernames"].split()
        people = {p.get_username(): p for p in get_user_model().objects.filter(username__in=names)}
        missing = [name for name in names if name not in people]
        if missing:
            raise ValidationError(_("There is no person of this name: %(names)s.") % {"names": ", ".join(missing)})
        return list(people.values())


@admin.register(ShellTarget)
class ShellTargetAdmin(Managed):
    """Targets of the tenants that the visitor manages. One that has had shells is switched off, not deleted."""

    form = TargetForm
    fields = (*FIELDS, "usernames")
    list_display = ("name", "tenant", "kind", "host", "min_role", "is_enabled")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Keep what shells point to."""
        return super().has_delete_permission(request, obj) and (obj is None or not obj.shells.exists())

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Store it, and put down who changed what."""
        super().save_model(request, obj, form, change)
        obj.people.set(form.cleaned_data["usernames"])
        detail = {name: getattr(obj, name) for name in SHOWN}
        detail["people"] = sorted(p.get_username() for p in form.cleaned_data["usernames"])
        audit(request, obj.tenant, "shell_target.changed" if change else "shell_target.made", obj.name, detail)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete it, and put that down."""
        audit(request, obj.tenant, "shell_target.deleted", obj.name, {})
        super().delete_model(request, obj)


@admin.register(Shell)
class ShellAdmin(ReadOnly):
    """Shells, to be read: they are opened and ended where they are used."""

    list_display = ("id", "tenant", "run", "target", "opened_by", "is_recorded", "created_at", "ended_at", "exit_code")
    list_select_related = ("tenant", "run", "target")
    show_full_result_count = False
