"""Limits from the environment: what cannot be counted stops the process at its start, and names the variable."""

from collections.abc import Iterator

import pytest

from runs.conf import limits


@pytest.fixture(autouse=True)
def _read_anew() -> Iterator[None]:
    limits.cache_clear()
    yield
    limits.cache_clear()


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [("EVENTS_DAYS", "0", "not a positive"), ("EVENTS_DAYS", "-1", "not a positive"),
     ("EVENTS_DAYS", "nan", "not a positive"), ("EVENTS_DAYS", "inf", "not a positive"),
     ("EVENTS_DAYS", "never", "not a positive"), ("EVENTS_PER_STREAM", "1.5", "not a positive"),
     ("EVENTS_DAYS", "9999999", "longer than 100 years"), ("COMPACT_AFTER_HOURS", "1e9", "longer than 100 years"),
     ("LEASE_SECONDS", "1e300", "longer than 100 years")],
)  # fmt: skip
def test_a_value_that_cannot_be_kept_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(f"OUTLIVE_{name}", value)
    with pytest.raises(ValueError, match=rf"OUTLIVE_{name}='{value}' is {says}"):
        limits()


def test_a_hundred_years_are_long_enough_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLIVE_EVENTS_DAYS", "36500")
    assert limits().events_days == 36500
