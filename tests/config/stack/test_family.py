"""Restarts back off, and a noisy child cannot flood the terminal."""

from config.stack.family import LINES_PER_WINDOW, WINDOW_SECONDS, Quota, Restarts


def test_quick_deaths_wait_longer_each_time_up_to_a_limit() -> None:
    restarts = Restarts()
    waits = [restarts.note_death(ran_seconds=1, now=100.0) for _ in range(8)]
    assert waits == [0.5, 1, 2, 4, 8, 15, 15, 15]
    assert restarts.due_at == 115.0


def test_a_long_life_starts_over() -> None:
    restarts = Restarts()
    for _ in range(5):
        restarts.note_death(ran_seconds=1, now=0.0)
    assert restarts.note_death(ran_seconds=31, now=0.0) == 0.5


def test_lines_beyond_the_quota_wait_for_the_next_window() -> None:
    quota = Quota()
    assert [quota.allows(0.0) for _ in range(LINES_PER_WINDOW + 2)] == [True] * LINES_PER_WINDOW + [False] * 2
    assert quota.allows(WINDOW_SECONDS + 0.1)
