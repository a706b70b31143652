"""The time that a worker writes into events: PostgreSQL's, counted on."""

import time

import pytest

from runs.clock import DatabaseClock
from tools.scope import boottime

FAR = 600.0  # how wrong the clock of this machine may be


def test_before_any_reading_it_is_the_clock_of_this_machine() -> None:
    assert DatabaseClock().time() == pytest.approx(time.time(), abs=30)


def test_it_counts_on_from_what_postgresql_said() -> None:
    clock = DatabaseClock()
    clock.learn(time.time() + FAR, asked_at=boottime())
    assert clock.time() == pytest.approx(time.time() + FAR, abs=30)
    first = clock.now()
    assert clock.now() >= first


def test_a_slow_answer_does_not_spoil_a_good_reading() -> None:
    clock = DatabaseClock()
    clock.learn(1_000_000.0, asked_at=boottime())
    before = clock.read_at
    clock.learn(2_000_000.0, asked_at=boottime() - 5.0)
    assert clock.time() == pytest.approx(1_000_000.0, abs=30)
    assert clock.read_at == before


def test_a_clock_that_was_set_is_followed_once_the_reading_is_old() -> None:
    clock = DatabaseClock()
    clock.learn(1_000_000.0, asked_at=boottime())
    clock.read_at -= 3600.0
    clock.learn(2_000_000.0, asked_at=boottime() - 0.5)
    assert clock.time() == pytest.approx(2_000_000.0, abs=30)
