from datetime import UTC, datetime, timedelta, timezone

import pytest

from runs.templatetags.outlive import icon, moment, size, status_badge, translated


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 B"), (999, "999 B"), (1400, "1.4 kB"), (123_456, "123 kB"), (3_200_000, "3.2 MB"), (5e9, "5.0 GB")],
)
def test_sizes_are_short(amount, text):
    assert size(amount) == text


def test_a_moment_is_utc_for_machines_and_readable_without_javascript():
    east = datetime(2026, 1, 1, 13, 0, tzinfo=timezone(timedelta(hours=1)))
    written = moment(east)
    assert 'datetime="2026-01-01T12:00:00.000Z"' in written
    assert "2026-01-01 12:00:00 UTC" in written
    assert moment("2026-01-01T12:00:00.000Z") == moment(datetime(2026, 1, 1, 12, tzinfo=UTC))
    assert moment(None) == ""


def test_a_badge_has_icon_word_and_tone():
    badge = status_badge("cancelled")
    for part in ("#stopped", "Stopped", 'data-tone="grey"'):
        assert part in badge


def test_an_icon_is_hidden_from_screen_readers():
    assert 'aria-hidden="true"' in icon("stop")


def test_an_empty_text_is_not_the_header_of_the_catalogue():
    assert translated("") == ""
