"""The documents of the workspace: list, upload, delete, samples. Bodies are bounded before anything reads them."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_POST

from runs.access import Actor
from runs.conf import limits
from runs.documents.selectors import visible_documents
from runs.documents.services import delete_document, load_samples, upload_document
from runs.errors import InvalidInput, NotAllowed
from runs.models import Document
from runs.pages.failures import too_large
from runs.pages.visits import page, read_id, show

BODY_FILES = 5  # a form may carry this many files of the full size, or more smaller ones


def limited_body[**P](
    view: Callable[Concatenate[HttpRequest, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """Answer 413 to a body that is too large, before the CSRF check would parse it to look for its token."""
    guarded = csrf_protect(view)

    @csrf_exempt
    @wraps(view)
    def check(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        length = request.META.get("CONTENT_LENGTH") or "0"
        if length.isdigit() and int(length) > limits().max_upload_bytes * BODY_FILES:
            return too_large(request)
        return guarded(request, *args, **kwargs)

    return check


@limited_body
@require_http_methods(["GET", "HEAD", "POST"])
@page
def document_list(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the documents; POST uploads the files of the form, or loads the samples."""
    if request.method != "POST":
        return _show_list(request, actor, [])
    is_sample = request.POST.get("do") == "samples"
    added, problems = (take_samples(actor), list[str]()) if is_sample else take_files(request, actor)
    if problems:
        return _show_list(request, actor, problems, status=400)
    text = ngettext("%(n)s document is here now.", "%(n)s documents are here now.", len(added)) % {"n": len(added)}
    messages.success(request, text)
    return HttpResponseRedirect(reverse("pages:documents"))


@require_POST
@page
def document_delete(request: HttpRequest, actor: Actor, document_id: str) -> HttpResponse:
    """Delete one document."""
    try:
        delete_document(actor=actor, document_id=read_id("doc", document_id))
    except NotAllowed as refusal:
        return _show_list(request, actor, [refusal.message], status=200 if _is_htmx(request) else 403)
    if _is_htmx(request):
        return _show_list(request, actor, [])
    return HttpResponseRedirect(reverse("pages:documents"))


def take_files(request: HttpRequest, actor: Actor) -> tuple[list[Document], list[str]]:
    """Store the uploaded files; each that cannot be taken is a sentence that names it. Raises: NotAllowed."""
    files = request.FILES.getlist("files")
    if not files:
        return [], [_("Choose a file first.")]
    added: list[Document] = []
    problems: list[str] = []
    for file in files:
        assert file.file is not None  # an uploaded file is always open
        name = file.name or ""
        try:
            document = upload_document(actor=actor, name=name, content_type=file.content_type or "", data=file.file)
        except InvalidInput as error:
            problems.append(f"{name[:100]}: {error.message}")
        else:
            added.append(document)
    return added, problems


def take_samples(actor: Actor) -> list[Document]:
    """Store the sample documents; a second time changes nothing. Raises: NotAllowed."""
    return load_samples(actor)


def _is_htmx(request: HttpRequest) -> bool:
    return bool(getattr(request, "htmx", False))


def _show_list(request: HttpRequest, actor: Actor, problems: list[str], status: int = 200) -> HttpResponse:
    context: dict[str, Any] = {
        "documents": visible_documents(actor).select_related("uploaded_by"),
        "problems": problems,
        "most_bytes": limits().max_upload_bytes,
        "most_files": settings.DATA_UPLOAD_MAX_NUMBER_FILES,
    }
    return show(request, actor, "pages/documents.html", context, section="documents", status=status)
