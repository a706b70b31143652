"""The target's page: it works as plain forms, and shows nothing unescaped."""

from tests.tools.target.conftest import Target


def test_form_flips_switches_and_a_second_form_turns_them_off(target: Target) -> None:
    form = {"never_answer": "1", "delay_seconds": "1.5", "key_prefix": "run_", "times": "2"}
    flipped = target.http.post("/switches", data=form)
    assert (flipped.status_code, flipped.headers["location"]) == (303, "/")
    now = target.http.get("/switches").json()
    assert (now["never_answer"], now["refuse"], now["delay_seconds"]) == (True, False, 1.5)
    assert (now["key_prefix"], now["times"]) == ("run_", 2)
    assert 'name="never_answer" value=1 checked' in target.http.get("/").text
    target.http.post("/switches", data={})
    assert "The switches are off" in target.http.get("/").text


def test_form_from_another_site_is_refused(target: Target) -> None:
    answer = target.http.post("/switches", data={"refuse": "1"}, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403
    own = str(target.http.base_url).rstrip("/")
    assert target.http.post("/switches", data={}, headers={"Origin": own}).status_code == 303


def test_page_escapes_what_came_from_outside_and_allows_no_script(target: Target) -> None:
    evil = '"><script>alert(1)</script>'
    body = {"customer": evil, "amount_cents": 1, "memo": evil}
    assert target.http.post("/invoices", json=body, headers={"Idempotency-Key": evil}).status_code == 201
    target.switch(key_prefix=evil)
    page = target.http.get("/")
    assert "<script" not in page.text
    assert "&lt;script&gt;" in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
