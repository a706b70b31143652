"""A permit lets one call through, in time, or none."""

import threading

import pytest

from tests.tools.builders import a_call, a_permit
from tools.errors import PermitExpired, PermitUsed
from tools.scope import CancelReason, Scope, boottime


def test_second_use_is_refused() -> None:
    permit = a_permit()
    permit.open()
    assert permit.is_used
    with pytest.raises(PermitUsed):
        permit.open()
    assert not permit.give_back()


def test_late_permit_is_void_and_proves_that_nothing_began() -> None:
    permit = a_permit(seconds=0)
    with pytest.raises(PermitExpired) as caught:
        permit.open()
    assert caught.value.why == "late"
    assert not permit.is_used


def test_given_back_permit_opens_nothing() -> None:
    permit = a_permit()
    assert permit.give_back()
    assert permit.give_back()
    with pytest.raises(PermitExpired, match="given_back"):
        permit.open()


def test_one_of_many_threads_gets_through() -> None:
    """Sixteen threads meet at a barrier and open the same permit."""
    permit, barrier, through = a_permit(seconds=60), threading.Barrier(16), []

    def try_to_open() -> None:
        barrier.wait()
        try:
            permit.open()
        except PermitUsed:
            return
        through.append(threading.get_ident())

    threads = [threading.Thread(target=try_to_open) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(through) == 1


async def test_call_that_sees_a_cancel_gives_its_permit_back() -> None:
    scope = Scope()
    call = a_call(scope=scope)
    scope.cancel(CancelReason.USER)
    with pytest.raises(PermitExpired, match="cancelled"):
        call.open()
    assert not call.permit.is_used
    with pytest.raises(PermitExpired, match="given_back"):
        call.permit.open()


async def test_call_past_its_deadline_does_not_begin() -> None:
    call = a_call(scope=Scope(deadline=boottime() - 1))
    with pytest.raises(PermitExpired, match="late"):
        call.open()
    assert not call.permit.is_used
