"""What goes in and what comes out: documents with their passages, and artifacts."""

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from runs.ids import new_id
from runs.models.identity import Tenant
from runs.models.run import Run


class Document(models.Model):
    """An uploaded file as text. One that cannot be read is kept with the reason, so that a report can name it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="documents")
    uploaded_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=255)
    content_type = models.CharField(max_length=100)
    size_bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    error = models.CharField(max_length=300, null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "sha256", "name"], name="document_once"),
            models.CheckConstraint(condition=Q(size_bytes__gte=0), name="document_size_not_negative"),
        ]

    def __str__(self) -> str:
        return self.name


class Passage(models.Model):
    """A citable piece of a document: a few hundred words with the place where it stands."""

    document = models.ForeignKey(Document, on_delete=models.CASCADE, related_name="passages")
    ordinal = models.IntegerField()
    place = models.CharField(max_length=200, default="", blank=True)  # "page 3", "Chapter 2"
    text = models.TextField()
    search = SearchVectorField(null=True)

    class Meta:
        ordering = ["document", "ordinal"]
        indexes = [GinIndex(fields=["search"], name="passage_search")]
        constraints = [
            models.UniqueConstraint(fields=["document", "ordinal"], name="passage_ordinal_once"),
        ]

    def __str__(self) -> str:
        return f"{self.document_id} #{self.ordinal}"


class Artifact(models.Model):
    """A file that a run made. Its name is unique in the run, so a repeated step writes the same one."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="artifacts")
    name = models.CharField(max_length=255)
    content_type = models.CharField(max_length=100)
    content = models.BinaryField()
    size_bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["created_at"]
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="artifact_name_once")]

    def __str__(self) -> str:
        return self.name
