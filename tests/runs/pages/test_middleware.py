import pytest
from django.http import HttpResponse
from django.test import AsyncClient, Client, RequestFactory
from structlog.contextvars import get_contextvars

from runs.pages.middleware import RequestIdMiddleware, choose_request_id


@pytest.mark.parametrize("offered", ["req_abcdefgh", "req_" + "0" * 32, "req_A-b_c-d_e"])
def test_a_well_formed_id_of_the_caller_is_kept(offered):
    assert choose_request_id(offered) == offered


@pytest.mark.parametrize(
    "offered",
    [None, "", "abc", "req_", "req_short", "req_" + "a" * 65, "req_aaaaaaaa\r\nX: y", "req_<script>", "req_é" * 4],
)
def test_anything_else_is_replaced_by_a_new_id(offered):
    made = choose_request_id(offered)
    assert made != offered
    assert choose_request_id(made) == made


def test_the_id_is_on_the_request_in_the_log_context_and_in_the_answer():
    seen = {}

    def view(request):
        seen.update(on_request=request.request_id, in_log=get_contextvars().get("request_id"))
        return HttpResponse()

    request = RequestFactory().get("/", headers={"X-Request-Id": "req_from-a-proxy"})
    response = RequestIdMiddleware(view)(request)
    assert seen == {"on_request": "req_from-a-proxy", "in_log": "req_from-a-proxy"}
    assert response["X-Request-Id"] == "req_from-a-proxy"
    assert "request_id" not in get_contextvars()


@pytest.mark.django_db
def test_both_stacks_answer_with_an_id():
    assert Client().get("/login/")["X-Request-Id"].startswith("req_")


@pytest.mark.django_db
async def test_the_async_stack_answers_with_an_id():
    response = await AsyncClient().get("/login/", headers={"X-Request-Id": "req_async-stack"})
    assert response["X-Request-Id"] == "req_async-stack"
