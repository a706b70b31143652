"""Which page answers which address. `config/urls.py` includes it at the root and takes the handlers."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path
from django.views.decorators.cache import cache_control
from django.views.generic import RedirectView
from django.views.i18n import JavaScriptCatalog

from runs.pages import commands, connection, documents, lists, retrying, run, shells, start, stop_many, talking

app_name = "pages"
handler400 = "runs.pages.failures.bad_request"
handler403 = "runs.pages.failures.forbidden"
handler404 = "runs.pages.failures.not_found"
handler500 = "runs.pages.failures.broken"

# The address of the catalog names the language, so that a switch of language fetches another one.
catalog = cache_control(private=True, max_age=300)(JavaScriptCatalog.as_view(packages=["runs"]))

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="pages:runs"), name="home"),
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("words.js", catalog, name="catalog"),
    path("connection/", connection.connection, name="connection"),
    path("runs/", lists.run_list, name="runs"),
    path("runs/rows/", lists.rows, name="rows"),
    path("runs/new/", start.new_run, name="new"),
    path("runs/demo/", start.demo_run, name="demo"),
    path("runs/stop/", stop_many.stop_many, name="stop_many"),
    path("runs/<str:run_id>/", run.run_page, name="run"),
    path("runs/<str:run_id>/stop/", commands.stop, name="stop"),
    path("runs/<str:run_id>/retry/", retrying.retry, name="retry"),
    path("runs/<str:run_id>/continue/", talking.go_on, name="go_on"),
    path("runs/<str:run_id>/next_messages/<str:message_id>/take_back/", talking.take_back, name="take_back"),
    path("runs/<str:run_id>/state/", run.state, name="state"),
    path("runs/<str:run_id>/extras/", run.extras, name="extras"),
    path("runs/<str:run_id>/raw/", run.raw, name="raw"),
    path("runs/<str:run_id>/answers/<str:question_id>/", commands.answer, name="answer"),
    path("shells/", shells.shell_list, name="shells"),
    path("shells/new/", shells.new_shell, name="new_shell"),
    path("shells/<str:shell_id>/", shells.shell_page, name="shell"),
    path("shells/<str:shell_id>/keep/", shells.keep, name="keep"),
    path("documents/", documents.document_list, name="documents"),
    path("documents/<str:document_id>/delete/", documents.document_delete, name="document_delete"),
]
