"""An agent's shell may be a person's for a while: theirs until they hand it back."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0010_pilots"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.AddField(
            model_name="shell",
            name="held_by",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddConstraint(
            model_name="shell",
            constraint=models.CheckConstraint(
                condition=models.Q(("opened_by", "agent"), ("held_by__isnull", True), _connector="OR"),
                name="shell_taken_from_agent_only",
            ),
        ),
    ]
