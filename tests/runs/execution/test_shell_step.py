"""`ctx.shell` on real terminals: what an agent does in its shell happens once, and ends with the agent or a Stop."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import sync_to_async

from runs.agent_shells import Place, may_type
from runs.agents import AgentStepError, RunContext, ToolFailed
from runs.agents.errors import ChildFailed
from runs.decisions import agent_shells, cancels, controls
from runs.execution.shell_step import WAIT_SECONDS
from runs.failpoints import armed
from runs.fold import fold_all
from runs.states import CancelReason
from tests.runs.execution.agents_shells import Carried, carried
from tests.runs.execution.conftest import Bench, OpenWorker, script, until
from tests.tools.processes.terminals.conftest import Terminals
from tools.call import ToolCall
from tools.effects import Receipt
from tools.errors import OutcomeUnknown
from tools.tool import tool

type Shelled = Callable[..., AbstractAsyncContextManager[Bench]]
pytestmark = pytest.mark.timeout(120)


async def stop(bench: Bench, it: Carried) -> None:
    await bench.decide(cancels.request_cancel(run_id=it.run.pk, reason=CancelReason.USER))


async def test_commands_share_one_shell_that_ends_with_its_agent(shelled: Shelled, terminals: Terminals) -> None:
    async def agent(ctx: RunContext) -> list:
        shell = await ctx.shell(rows=30, cols=100)
        await shell.run("mkdir -p deep; cd deep; X=41")
        answers = [
            await shell.run("echo $((X+1)) ${PWD##*/}; false"),
            await shell.run("if true\nthen\n\tstty size\nfi"),
        ]
        await shell.type("read Y\r")
        await shell.type("typed\r")
        answers.append(await shell.run("echo $Y"))
        return [[one.output, one.exit_code] for one in answers] + [shell.id, shell.run_id]

    async with shelled() as bench, carried(bench, agent, terminals.folder) as it:
        shell = await it.shell()
        row = await it.end()
        assert row["status"] == "completed", row["error_message"]
        assert row["result"][:3] == [["42 deep\n", 1], ["30 100\n", 0], ["typed\n", 0]]
        assert row["result"][3] == shell.key
        child = await bench.row(shell)
        assert (child["status"], child["cancel_reason"], child["on_disconnect"]) == ("cancelled", "parent", "continue")
        assert not shell.pids()
        assert not shell.is_there
        events = await bench.events(it.run)
        (born,) = [event["data"] for event in events if event["type"] == "child.started"]
        assert born["shell_id"] == shell.key
        assert [one["state"] for one in await it.commands()] == ["succeeded"] * 4


async def test_a_command_that_takes_too_long_gets_ctrl_c(shelled: Shelled, terminals: Terminals) -> None:
    async def agent(ctx: RunContext) -> list:
        shell = await ctx.shell()
        late = await shell.run("echo begun; sleep 1000", timeout_seconds=0.3)
        after = await shell.run("echo on")
        return [late.output, late.exit_code, late.timed_out, after.output, after.timed_out]

    async with shelled() as bench, carried(bench, agent, terminals.folder) as it:
        assert (await it.end())["result"] == ["begun\n^C\n", 130, True, "on\n", False]


async def test_one_that_ignores_ctrl_c_is_an_error_and_the_next_waits_for_it(
    shelled: Shelled, terminals: Terminals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.agent_shell_tools.PROMPT_SECONDS", 0.5)

    async def agent(ctx: RunContext) -> list:
        shell = await ctx.shell()
        try:
            await shell.run("trap '' INT; sh -c 'while [ ! -e go ]; do sleep 0.1; done'", timeout_seconds=0.2)
        except ToolFailed as error:
            return [error.code, (await shell.run("echo after", timeout_seconds=20)).output]
        return []

    async with shelled() as bench, carried(bench, agent, terminals.folder) as it:
        shell = await it.shell()

        async def is_given_up() -> bool:
            return [one["state"] for one in await it.commands()] == ["succeeded"]

        await until(is_given_up, seconds=30)
        assert len(shell.pids()) > 1
        (await shell.home() / "go").touch()
        assert (await it.end())["result"] == ["no_prompt", "after\n"]


async def test_the_next_claim_adopts_a_running_command(shelled: Shelled, terminals: Terminals) -> None:
    """The worker dies while a command prints a megabyte: it ran once, and its output is whole."""

    async def agent(ctx: RunContext) -> list:
        shell = await ctx.shell()
        await shell.run("X=1")
        done = await shell.run(
            "echo o''nce >> lines; until [ -e go ]; do sleep 0.05; done; seq 150000", timeout_seconds=60
        )
        last = await shell.run("cat lines; echo $X")
        return [done.output[:4], done.output[-7:], done.left_out_bytes, done.exit_code, last.output]

    async with shelled("worker-a") as first, shelled("worker-b") as second:
        async with carried(first, agent, terminals.folder) as it:
            shell = await it.shell()
            folder = await shell.home()
            await until(lambda: exists(folder / "lines"), seconds=30)
            await it.lose(second)
            await second.until_event(it.run, "claim.started", 2)
            (folder / "go").touch()
            row = await it.end()
            size = sum(len(f"{n}\r\n") for n in range(1, 150_001))
            assert row["result"] == ["1\n2\n", "150000\n", size - 32 * 1024, 0, "once\n1\n"]
            assert row["deaths"] == 0
            types = await first.types(it.run)
            assert types.count("tool.started") == types.count("tool.result") == 3


async def test_a_command_whose_worker_died_before_it_was_typed_is_typed_once(
    shelled: Shelled, terminals: Terminals
) -> None:
    """Killed between the permit and the typing: the terminal proves that nothing went in, and the next claim types."""

    async def agent(ctx: RunContext) -> str:
        shell = await ctx.shell()
        await shell.run("echo o''nce >> lines")
        return (await shell.run("cat lines")).output

    passed, reached, gone = 0, asyncio.Event(), asyncio.Event()

    async def here() -> None:
        nonlocal passed
        passed += 1
        if passed == 2:  # the first call is that of the shell's own run
            reached.set()
            await gone.wait()

    async with shelled("worker-a") as first, shelled("worker-b") as second:
        with armed("after_dispatch_before_receipt", here):
            async with carried(first, agent, terminals.folder) as it:
                await asyncio.wait_for(reached.wait(), 30)
                await it.lose(second)
                row = await it.end()
                gone.set()
                assert (row["status"], row["result"]) == ("completed", "once\n"), row["error_message"]
                assert [event["type"] for event in await first.events(it.run)].count("claim.started") == 2


async def test_a_drain_lets_a_model_beside_a_command_finish(shelled: Shelled, terminals: Terminals) -> None:
    """The command lives on without its claim, the model does not: the run goes when only the command is left."""

    async def agent(ctx: RunContext) -> list:
        shell = await ctx.shell()

        async def command() -> str:
            return (await shell.run("until [ -e go ]; do sleep 0.05; done; echo done", timeout_seconds=60)).output

        async def model() -> str:
            return (await ctx.model(script(key="beside", text="a b c", hold_at=2))).text

        return await ctx.gather(command(), model())

    async with shelled("worker-a") as first, shelled("worker-b") as second:
        async with carried(first, agent, terminals.folder) as it:
            shell = await it.shell()
            await it.typed()
            await first.until_event(it.run, "text.delta", 2)
            it.worker = second
            first.worker.hands.draining.set()
            await second.until_event(shell, "claim.started", 2)  # what only lives on was let go at once
            (first.worker.hands.workspaces.parent / "beside.release").touch()
            await second.until_event(it.run, "claim.started", 2)
            (await shell.home() / "go").touch()
            row = await it.end()
            assert (row["result"], row["deaths"]) == (["done\n", "a b c"], 0), row["error_message"]
            events = await first.events(it.run)
            types = [event["type"] for event in events]
            claimed = types.index("claim.started", types.index("claim.started") + 1)
            assert types[:claimed].count("text.delta") == types.count("text.delta")
            assert types.count("tool.started") == types.count("tool.result") == 1
            assert types.index("tool.result") > claimed


async def test_a_stop_ends_the_agent_and_its_shell_with_proof(shelled: Shelled, terminals: Terminals) -> None:
    async def agent(ctx: RunContext) -> None:
        shell = await ctx.shell()
        await shell.run("touch begun; setsid sleep 31338 & trap '' TERM HUP; sleep 31339", timeout_seconds=600)

    async with shelled() as bench, carried(bench, agent, terminals.folder) as it:
        shell = await it.shell()
        begun = await shell.home() / "begun"
        await until(lambda: exists(begun), seconds=30)
        pids = shell.pids()
        await stop(bench, it)
        row = await it.end()
        assert (row["status"], row["cancel_reason"]) == ("cancelled", "user")
        assert {one["outcome"] for one in row["cancel_effects"]} == {"stopped"}
        assert "process tree empty" in {one["proof"] for one in row["cancel_effects"]}
        child = await bench.row(shell)
        assert (child["status"], child["cancel_reason"]) == ("cancelled", "parent")
        assert not any(pid.is_running() for pid in pids)


async def exists(path: Path) -> bool:
    return await asyncio.to_thread(path.exists)


async def test_a_shell_that_ends_under_a_command_fails_the_command(shelled: Shelled, terminals: Terminals) -> None:
    async def agent(ctx: RunContext) -> list:
        shell = await ctx.shell()
        codes = []
        for command in ("echo last words; exit 3", "echo never"):
            try:
                await shell.run(command)
            except ToolFailed as error:
                codes.append(error.code)
        again = await ctx.shell()
        await again.close()
        return codes

    async with shelled() as bench, carried(bench, agent, terminals.folder) as it:
        row = await it.end()
        assert (row["status"], row["result"]) == ("completed", ["shell_ended", "shell_ended"])
        (operation,) = await it.commands()
        assert (operation["state"], operation["receipt"]["proof"]) == ("succeeded", "process tree empty")
        assert "last words" in operation["receipt"]["value"]["output"]


async def test_what_cannot_be_opened_is_an_error_of_the_step(
    shelled: Shelled, a_worker: OpenWorker, terminals: Terminals
) -> None:
    async def agent(ctx: RunContext) -> list:
        codes = []
        for target in ("nowhere", "local"):
            try:
                await ctx.shell(target)
            except ChildFailed as error:
                codes.append(error.code)
        return codes

    async with a_worker() as bench, carried(bench, agent, terminals.folder) as it:  # a worker without terminals
        assert (await it.end())["result"] == ["not_found", "no_terminals"]


@tool(effect="write", look_up=None)
async def vanish(call: ToolCall) -> Receipt:
    """Do something of which nobody hears again."""
    call.open()
    raise OutcomeUnknown("No answer.")


async def test_an_unknown_effect_ends_the_shell_too(shelled: Shelled, terminals: Terminals) -> None:
    """A shell never ends by itself: a run that needs reconciliation would wait for it for ever."""

    async def agent(ctx: RunContext) -> None:
        await ctx.shell()
        await ctx.tool(vanish)

    async with shelled() as bench, carried(bench, agent, terminals.folder) as it:
        assert (await it.end())["status"] == "needs_reconciliation"
        assert (await bench.row(await it.shell()))["cancel_reason"] == "parent"


async def test_an_error_of_the_agent_ends_its_shell(shelled: Shelled, terminals: Terminals) -> None:
    async def agent(ctx: RunContext) -> None:
        await ctx.shell()
        raise AgentStepError("enough")

    async with shelled() as bench, carried(bench, agent, terminals.folder) as it:
        shell = await it.shell()
        assert (await it.end())["error_code"] == "step_failed"
        await shell.is_gone()


async def test_a_person_takes_over_and_hands_back(shelled: Shelled, terminals: Terminals) -> None:
    """In mid-command: that one ends for the agent as well. Its next one waits, whoever goes away, until handed back."""

    async def agent(ctx: RunContext) -> list:
        shell = await ctx.shell()
        first = await shell.run("touch begun; until [ -e go ]; do sleep 0.05; done; echo first", timeout_seconds=0.5)
        second = await shell.run("echo agent >> order; cat order")
        return [first.output, first.timed_out, second.output]

    async with shelled() as bench, carried(bench, agent, terminals.folder) as it:
        shell = await it.shell()
        folder, user = await shell.home(), bench.person.user.pk
        await until(lambda: exists(folder / "begun"), seconds=30)
        assert await bench.decide(controls.attach_pilot(run_id=shell.pk, user_id=user)) == controls.Held(0, None)
        attached = await bench.decide(controls.attach_pilot(run_id=shell.pk, user_id=user, takes_over=True))
        await shell.type("echo person >> order\n", sees="person", generation=attached.generation)
        await asyncio.sleep(1.0)  # past the command's time-out: what runs is the person's, and gets no Ctrl-C
        await asyncio.to_thread((folder / "go").touch)

        async def first_has_ended() -> bool:
            return [one["state"] for one in await it.commands()] == ["succeeded"]

        await until(first_has_ended, seconds=30)
        await until(lambda: exists(folder / "order"), seconds=30)
        await bench.decide(controls.detach(connection_id=attached.connection_id))  # going away hands nothing back
        place = Place(UUID(hex=shell.key.removeprefix("shell_")), shell.pk, it.run.pk)
        fence = (await it.row())["fence"]
        assert (await sync_to_async(may_type)(place, fence)).may is False
        for _ in range(3):  # looks of the waiting agent
            await asyncio.sleep(WAIT_SECONDS)
            assert len(await it.commands()) == 1
        (child,) = [step for step in await fold_steps(bench, it) if step["child"]]
        assert child["child"]["held_by"] == bench.person.user.username
        assert await bench.decide(agent_shells.hand_back(run_id=shell.pk, user_id=user + 1)) is False
        assert await bench.decide(agent_shells.hand_back(run_id=shell.pk, user_id=user)) is True
        assert (await sync_to_async(may_type)(place, fence)).may is True
        row = await it.end()
        assert row["status"] == "completed", row["error_message"]
        output, *rest = row["result"]
        assert (output.endswith("first\n"), rest) == (True, [False, "person\nagent\n"])
        (child,) = [step for step in await fold_steps(bench, it) if step["child"]]
        assert child["child"]["held_by"] is None


async def fold_steps(bench: Bench, it: Carried) -> list[dict[str, Any]]:
    frames = [{"seq": seq, **event} for seq, event in enumerate(await bench.events(it.run), 1)]
    steps: list[dict[str, Any]] = fold_all(frames)["steps"]
    return steps


async def test_a_claim_that_is_not_the_newest_may_not_type(shelled: Shelled, terminals: Terminals) -> None:
    async def agent(ctx: RunContext) -> None:
        await ctx.shell()
        await ctx.sleep(600)

    async with shelled() as bench, carried(bench, agent, terminals.folder) as it:
        shell = await it.shell()
        await bench.until_event(it.run, "step.finished")
        place = Place(UUID(hex=shell.key.removeprefix("shell_")), shell.pk, it.run.pk)
        row = await it.row()
        assert (await sync_to_async(may_type)(place, row["fence"] - 1)).may is False
        await stop(bench, it)
        assert (await sync_to_async(may_type)(place, row["fence"])).may is False
        await it.end()
