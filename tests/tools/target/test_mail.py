"""The target's SMTP side: mail is recorded with its key and fence, and each switch is seen over SMTP."""

import smtplib
import time
from email.message import EmailMessage

import pytest

from tests.tools.target.conftest import Target


def send(target: Target, key: str, *, fence: int | None = None, timeout_seconds: float = 5) -> None:
    """Send one mail; raises what smtplib raises."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "outlive@example.org", "anna@example.org", "Grüße 👋"
    mail["X-Outlive-Operation-Key"] = key
    if fence is not None:
        mail["X-Outlive-Fence"] = str(fence)
    mail.set_content("Hello Anna")
    with smtplib.SMTP("127.0.0.1", target.smtp_port, timeout=timeout_seconds) as smtp:
        smtp.send_message(mail)


def test_mail_is_recorded_with_key_fence_and_text(target: Target) -> None:
    send(target, "m1", fence=4)
    (mail,) = target.http.get("/mails").json()["mails"]
    assert (mail["key"], mail["fence"], mail["to"]) == ("m1", 4, ["anna@example.org"])
    assert (mail["subject"], mail["text"].strip()) == ("Grüße 👋", "Hello Anna")


def test_mail_knows_no_repeat_so_the_same_key_is_a_second_effect(target: Target) -> None:
    send(target, "m1")
    send(target, "m1")
    assert target.count("m1") == 2


def test_stale_fence_and_sealed_key_are_refused_without_effect(target: Target) -> None:
    send(target, "m1", fence=5)
    with pytest.raises(smtplib.SMTPDataError, match="stale_fence"):
        send(target, "m1", fence=4)
    target.http.post("/operations/m2/seal")
    with pytest.raises(smtplib.SMTPDataError, match="sealed"):
        send(target, "m2")
    assert (target.count("m1"), target.count("m2")) == (1, 0)


def test_delay_comes_after_the_effect(target: Target) -> None:
    target.switch(delay_seconds=0.4)
    started = time.monotonic()
    send(target, "m1")
    assert time.monotonic() - started >= 0.4
    assert target.count("m1") == 1


def test_connection_is_cut_after_the_effect(target: Target) -> None:
    target.switch(drop_after_commit=True)
    with pytest.raises((smtplib.SMTPServerDisconnected, ConnectionError)):
        send(target, "m1")
    assert target.count("m1") == 1


def test_no_answer_after_the_effect(target: Target) -> None:
    target.switch(never_answer=True)
    with pytest.raises((TimeoutError, smtplib.SMTPServerDisconnected)):
        send(target, "m1", timeout_seconds=0.5)
    assert target.count("m1") == 1


def test_451_after_the_effect(target: Target) -> None:
    target.switch(fail_after_effect=True)
    with pytest.raises(smtplib.SMTPDataError) as caught:
        send(target, "m1")
    assert caught.value.smtp_code == 451
    assert target.count("m1") == 1


def test_refusal_has_no_effect(target: Target) -> None:
    target.switch(refuse=True)
    with pytest.raises(smtplib.SMTPDataError) as caught:
        send(target, "m1")
    assert caught.value.smtp_code == 550
    assert target.count("m1") == 0
