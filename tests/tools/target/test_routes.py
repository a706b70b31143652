"""The target's HTTP behaviour over real sockets: keys, fences, seals, switches."""

import time

import httpx
import pytest

from tests.tools.target.conftest import Target


def test_invoice_needs_an_idempotency_key_and_a_valid_body(target: Target) -> None:
    body = {"customer": "ACME", "amount_cents": 500}
    assert target.http.post("/invoices", json=body).json()["code"] == "key_required"
    wrong = target.http.post("/invoices", json={**body, "amount_cents": "5"}, headers={"Idempotency-Key": "k"})
    assert (wrong.status_code, wrong.json()["fields"][0]["field"]) == (422, "amount_cents")
    assert target.count("k") == 0


def test_same_key_returns_the_same_invoice_without_a_second_effect(target: Target) -> None:
    first, second = target.invoice("k1"), target.invoice("k1")
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert target.count("k1") == 1


def test_same_key_with_another_body_is_refused(target: Target) -> None:
    target.invoice("k1")
    assert target.invoice("k1", amount_cents=501).json()["code"] == "key_reused"
    assert target.count("k1") == 1


def test_lower_fence_than_the_highest_seen_is_refused(target: Target) -> None:
    """A worker that was frozen wakes up after its successor acted; also when the successor only repeated."""
    assert target.invoice("k1", fence=3).status_code == 201
    assert target.invoice("k1", fence=5).status_code == 200
    stale = target.invoice("k1", fence=4)
    assert (stale.status_code, stale.json()["code"]) == (409, "stale_fence")
    assert target.invoice("k2", fence=1).status_code == 201
    assert target.http.get("/operations/k1").json()["fence"] == 5


def test_fence_that_is_no_number_is_refused_without_effect(target: Target) -> None:
    headers = {"Idempotency-Key": "k1", "X-Outlive-Fence": "-1"}
    body = {"customer": "ACME", "amount_cents": 500}
    assert target.http.post("/invoices", json=body, headers=headers).status_code == 400
    assert target.count("k1") == 0


def test_look_up_of_an_unknown_key_is_404_with_count_0(target: Target) -> None:
    answer = target.http.get("/operations/nobody")
    assert (answer.status_code, answer.json()["count"]) == (404, 0)


def test_sealed_key_is_refused_from_then_on(target: Target) -> None:
    assert target.http.post("/operations/k1/seal").json() == {"key": "k1", "count": 0, "sealed": True}
    late = target.invoice("k1")
    assert (late.status_code, late.json()["code"]) == (410, "sealed")
    assert target.count("k1") == 0
    target.invoice("k2")
    assert target.http.post("/operations/k2/seal").json()["count"] == 1
    assert target.invoice("k2").status_code == 410


def test_void_is_one_effect_under_its_own_key(target: Target) -> None:
    invoice = target.invoice("k1").json()["id"]
    for _ in range(2):
        void = target.http.post(f"/invoices/{invoice}/void", headers={"Idempotency-Key": "comp:k1"})
        assert (void.status_code, void.json()["status"]) == (200, "void")
    assert target.count("comp:k1") == 1
    other = target.http.post("/invoices/inv_none/void", headers={"Idempotency-Key": "comp:k2"})
    assert other.status_code == 404


def test_effects_are_filtered_by_prefix_and_keys_may_hold_any_character(target: Target) -> None:
    target.invoice("run_1/step:a b")
    target.invoice("run_2/x")
    found = target.http.get("/effects", params={"prefix": "run_1/"}).json()["effects"]
    assert [effect["key"] for effect in found] == ["run_1/step:a b"]
    looked_up = target.http.get("/operations/run_1%2Fstep%3Aa%20b").json()
    assert (looked_up["count"], looked_up["effects"][0]["kind"]) == (1, "invoice.created")


def test_delay_lets_the_effect_happen_before_the_answer(target: Target) -> None:
    target.switch(delay_seconds=0.4)
    started = time.monotonic()
    assert target.invoice("k1").status_code == 201
    assert time.monotonic() - started >= 0.4


@pytest.mark.parametrize("switch", ["drop_after_commit", "never_answer"])
def test_lost_answer_leaves_exactly_one_effect_also_after_a_repeat(target: Target, switch: str) -> None:
    target.switch(**{switch: True, "times": 1})
    expected = httpx.ReadTimeout if switch == "never_answer" else httpx.ReadError
    with httpx.Client(base_url=target.http.base_url, timeout=0.5) as client, pytest.raises(expected):
        client.post("/invoices", json={"customer": "ACME", "amount_cents": 500}, headers={"Idempotency-Key": "k1"})
    assert target.count("k1") == 1
    assert target.invoice("k1").status_code == 200
    assert target.count("k1") == 1


def test_failure_after_the_effect_is_a_500_with_an_effect(target: Target) -> None:
    target.switch(fail_after_effect=True)
    assert target.invoice("k1").status_code == 500
    assert target.count("k1") == 1


def test_refusal_has_no_effect(target: Target) -> None:
    target.switch(refuse=True)
    assert target.invoice("k1").json()["code"] == "refused"
    assert target.count("k1") == 0


def test_switches_apply_to_the_prefix_only_and_so_many_times(target: Target) -> None:
    target.switch(fail_after_effect=True, key_prefix="bad", times=2)
    answers = [target.invoice(key).status_code for key in ("good", "bad1", "bad2", "bad3")]
    assert answers == [201, 500, 500, 201]
    assert target.http.get("/switches").json()["fail_after_effect"] is False


def test_look_up_can_fail_without_touching_effects(target: Target) -> None:
    target.invoice("k1")
    target.switch(lookup_fails=True, times=1)
    assert target.invoice("k2").status_code == 201
    assert target.http.get("/operations/k1").status_code == 503
    assert target.count("k1") == 1


def test_unknown_switch_is_refused(target: Target) -> None:
    assert target.http.put("/switches", json={"delay": 3}).status_code == 422
