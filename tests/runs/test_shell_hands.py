"""Taking an agent's shell over and handing it back without a socket."""

from threading import Timer

import psutil
import pytest
from asgiref.sync import async_to_sync, sync_to_async

from runs import shell_hands
from runs.database import decide
from runs.decisions import cancels, controls
from runs.errors import HandsNotChanged, NotAllowed, NotFound
from runs.ids import text_id
from runs.models import AuditEntry, ControlConnection, Event, Run
from runs.states import CancelReason
from tests.builders import a_shell, an_agents_shell, silent
from tests.tools.processes.terminals.conftest import terminals
from tools.processes.terminals.commands import FROM_NOW, Command
from tools.scope import boottime

__all__ = ["terminals"]  # a fixture
pytestmark = pytest.mark.django_db(transaction=True)


def take(actor, shell):
    return shell_hands.take_over_shell(actor=actor, shell_id=shell.pk)


def give(actor, shell):
    return shell_hands.hand_back_shell(actor=actor, shell_id=shell.pk)


def test_it_is_theirs_until_they_hand_it_back_and_each_is_put_down_once(owner, operator):
    shell = an_agents_shell(owner)
    for _ in range(2):
        assert take(operator, shell).held_by == operator.user
    assert not ControlConnection.objects.filter(run=shell.run_id, is_live=True).exists()  # nobody is connected
    assert Run.objects.get(pk=shell.run_id).control_count == 0
    for _ in range(2):
        assert give(operator, shell).held_by is None
    entries = AuditEntry.objects.order_by("pk").values_list("user", "action", "detail__from")
    assert list(entries) == [
        (operator.user.pk, "shell.taken_over", "agent"),
        (operator.user.pk, "shell.handed_back", None),
    ]
    told = Event.objects.filter(stream_id=shell.run.parent.stream_id).order_by("seq").values_list("data", flat=True)
    assert [kind for text in told for kind in ("child.taken_over", "child.handed_back") if f'"{kind}"' in text] == [
        "child.taken_over",
        "child.handed_back",
    ]


def test_their_own_window_stays_in_control(owner):
    """Who has it already takes it from nobody."""
    shell = an_agents_shell(owner)
    attached = decide(controls.attach_pilot(run_id=shell.run_id, user_id=owner.user.pk, takes_over=True), ring=silent)
    take(owner, shell)
    assert decide(controls.renew_presence(connection_id=attached.connection_id), ring=silent)
    give(owner, shell)  # and a hand-back leaves nobody in control
    assert not decide(controls.renew_presence(connection_id=attached.connection_id), ring=silent)


def test_another_person_takes_it_and_only_they_hand_it_back(owner, operator):
    shell = an_agents_shell(owner)
    take(owner, shell)
    take(operator, shell)
    with pytest.raises(HandsNotChanged) as refused:
        give(owner, shell)
    assert refused.value.code == "shell_held"
    assert AuditEntry.objects.order_by("pk").last().detail["from"] == owner.user.pk
    assert give(operator, shell).held_by is None


def test_whoever_may_not_type_takes_nothing(owner, viewer, teammate, outsider):
    shell = an_agents_shell(owner)
    for actor, refusal in ((viewer, NotAllowed), (teammate, NotAllowed), (outsider, NotFound)):
        for act in (take, give):
            with pytest.raises(refusal):
                act(actor, shell)
    shell.refresh_from_db()
    assert (shell.held_by, AuditEntry.objects.count()) == (None, 0)


def test_a_persons_shell_and_one_that_ends_are_not_taken(owner):
    mine, ending = a_shell(owner), an_agents_shell(owner)
    decide(cancels.request_cancel(run_id=ending.run_id, reason=CancelReason.USER), ring=silent)
    for shell, code in ((mine, "not_an_agents_shell"), (ending, "shell_ended")):
        with pytest.raises(HandsNotChanged) as refused:
            take(owner, shell)
        assert refused.value.code == code
    assert AuditEntry.objects.count() == 0


def test_what_the_agent_asked_for_before_goes_in_no_more(owner, terminals, settings):
    """Its line was let in by the row, and reaches the terminal after the take-over was answered."""
    settings.TERMINALS = terminals.folder
    shell = an_agents_shell(owner)
    key = text_id("shell", shell.pk)

    async def play() -> str | None:
        await terminals.start(key=key)
        async with terminals.seat("agent", key=key, fence=1, line=None, **{"from": FROM_NOW}) as agent:
            before = Command(agent.terminal, "line")
            await sync_to_async(take)(owner, shell)
            agent.terminal.line("line", text="echo x\n", keys=True, until=boottime() + 60, over=0)
            while before.answer is None:
                assert await before.read(60.0)
            return before.answer

    assert async_to_sync(play)() == "taken"


def test_a_terminal_that_stands_still_keeps_nobody_waiting(owner, terminals, settings):
    """What the agent had asked for before is good for two seconds, and then goes in no more, whoever knows of it."""
    settings.TERMINALS = terminals.folder
    shell = an_agents_shell(owner)
    async_to_sync(terminals.start)(key=text_id("shell", shell.pk))
    (ward,) = terminals.wards()
    ward.suspend()
    thaw = Timer(60.0, ward.resume)
    thaw.start()
    try:
        assert take(owner, shell).held_by == owner.user
        assert ward.status() == psutil.STATUS_STOPPED
        assert AuditEntry.objects.get().action == "shell.taken_over"
        assert Run.objects.get(pk=shell.run_id).control_count == 0
    finally:
        thaw.cancel()
        ward.resume()
