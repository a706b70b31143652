"""A bug that is planted in a guard is caught by the explorer, within the orders that every `make test` walks."""

import pytest

from tests.explore.mutations import BUGS, Bug
from tests.explore.orders import Failed, walk
from tests.explore.scenarios import SCENARIOS
from tests.explore.stages import a_stage
from tests.explore.test_explorer import ORDERS

pytestmark = pytest.mark.django_db(transaction=True)


def catch(owner: object, planted: Bug) -> Failed | None:
    """Walk the scenarios of a bug until an order breaks."""
    for name in planted.scenarios:
        with a_stage(SCENARIOS[name], owner, rewrite=planted.rewrite()) as stage:
            try:
                walk(stage, limit=ORDERS)
            except Failed as failed:
                return failed
    return None


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught(owner, name):
    failed = catch(owner, BUGS[name])
    assert not BUGS[name].missing(), "its text is in no statement any more"
    assert failed is not None, "no order showed it"
    print(failed.trace, type(failed.error).__name__, str(failed.error)[:100])


def test_a_bug_whose_text_is_gone_is_an_error(owner):
    gone = Bug("gone", ("timer-vs-cancel",), (("fire_timer", "no such text", ""),))
    assert catch(owner, gone) is None
    assert gone.missing() == list(gone.edits)
