"""What ends a reader says what to do next, and is kept apart from what only cuts a connection."""

import pytest

from runs.reading import errors


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, errors.BadProtocol), (401, errors.NotSignedIn), (403, errors.Forbidden), (404, errors.UnknownRun),
     (422, errors.StreamRefused)],
)  # fmt: skip
def test_an_http_refusal_is_the_error_of_the_close_code(status: int, kind: type[errors.StreamRefused]) -> None:
    error = errors.refusal_of_status(status, "why")
    assert type(error) is kind
    assert error.code == kind.CODE
    assert error.NEXT_MOVE in str(error)


def test_a_cut_is_no_stream_error() -> None:
    assert not issubclass(errors.Cut, errors.StreamError)
    assert str(errors.StreamLost(seconds=300, reason="reset", cursor="st_1:5")) == (
        "No contact for 300 s (reset). The run goes on at the server; follow it again after st_1:5."
    )
