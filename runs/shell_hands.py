"""Taking an agent's shell over and handing it back without a socket: what its page does over its own (door.py)."""

import asyncio
from uuid import UUID

from asgiref.sync import async_to_sync
from django.conf import settings

from runs.access import Actor
from runs.auditing import audit
from runs.database import decide
from runs.decisions import agent_shells, controls
from runs.errors import HandsNotChanged, NotAllowed
from runs.ids import text_id
from runs.models import Shell
from runs.shells import get_shell, may_pilot
from tools.processes.terminals.commands import FROM_NOW
from tools.processes.terminals.link import PERMIT_SECONDS, NoHost, Refused, Terminal


def take_over_shell(*, actor: Actor, shell_id: UUID) -> Shell:
    """Make an agent's shell the actor's, until they hand it back; once more changes nothing.

    From its return on no key of the agent goes in. Nobody types meanwhile unless a socket of theirs comes.
    Raises: NotFound, NotAllowed, HandsNotChanged (no agent's shell; it has ended or is ending).
    """
    shell = _agents_shell(actor, shell_id)
    if shell.held_by_id == actor.user.pk:
        return shell
    run_id, held_by = shell.run_id, shell.held_by_id
    taken = decide(controls.attach_pilot(run_id=run_id, user_id=actor.user.pk, takes_over=True))
    if not isinstance(taken, controls.Attached):
        raise HandsNotChanged("ended")
    found = {"from": held_by or "agent", "generation": taken.generation}
    audit(actor, "shell.taken_over", text_id("shell", shell_id), found)
    async_to_sync(_shut_out)(text_id("shell", shell_id), taken.generation)
    decide(controls.detach(connection_id=taken.connection_id))
    return get_shell(actor, shell_id)


def hand_back_shell(*, actor: Actor, shell_id: UUID) -> Shell:
    """Make it the agent's again; one that nobody has taken over stays as it is.

    Raises: NotFound, NotAllowed, HandsNotChanged (no agent's shell; somebody else has taken it over).
    """
    shell = _agents_shell(actor, shell_id)
    if decide(agent_shells.hand_back(run_id=shell.run_id, user_id=actor.user.pk)):
        audit(actor, "shell.handed_back", text_id("shell", shell_id), {})
    shell = get_shell(actor, shell_id)
    if shell.held_by_id is not None:
        raise HandsNotChanged("held")
    return shell


def _agents_shell(actor: Actor, shell_id: UUID) -> Shell:
    shell = get_shell(actor, shell_id)
    if not may_pilot(actor, shell):
        raise NotAllowed("shell.pilot")
    if shell.opened_by != "agent":
        raise HandsNotChanged("not_agents")
    return shell


async def _shut_out(key: str, generation: int) -> None:
    """Have the terminal know of the newer person: a line of the agent whose question came before does not go in.

    Of one that does not answer nobody waits longer than such a line is good for: then it goes in no more either.
    """
    hello = {"role": "pilot", "generation": generation, "from": FROM_NOW}
    try:
        async with asyncio.timeout(PERMIT_SECONDS), Terminal.attach(str(settings.TERMINALS), key, **hello):
            pass
    except (NoHost, Refused, TimeoutError):
        pass  # it has ended or has not begun; or somebody newer is there, which shuts the agent out as well
