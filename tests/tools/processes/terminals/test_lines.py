"""Lines that an agent types: at a prompt only, once, whole; and where each begins and ends."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.tools.processes.terminals.conftest import KEY, QUIET, Terminals
from tools.processes.terminals.commands import FROM_NOW, Command
from tools.processes.terminals.lines import Lines
from tools.processes.terminals.link import Refused, Terminal
from tools.processes.terminals.marks import as_line, marking_environment
from tools.scope import boottime

WORD = "w0rd"
SECONDS = 20.0


class Agent:
    """A claim at a terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal

    async def until_ready(self) -> None:
        waiting = Command(self.terminal, "")
        end = boottime() + SECONDS
        while waiting.state != "ready":
            assert boottime() < end, waiting.state
            await waiting.read(1.0)

    def want(self, line_id: str, command: str, *, over: int = 0, seconds: float = 10.0, **more: object) -> Command:
        wanted = Command(self.terminal, line_id)
        self.terminal.line(line_id, text=as_line(command), over=over, until=boottime() + seconds, **more)
        return wanted

    async def answer(self, wanted: Command) -> str | None:
        while wanted.answer is None:
            assert await wanted.read(SECONDS)
        return wanted.answer

    async def end(self, wanted: Command) -> tuple[str, int]:
        while not wanted.is_done:
            assert await wanted.read(SECONDS), (wanted.line, wanted.kept.text())
        assert wanted.line is not None
        return wanted.kept.text(), wanted.line["code"]

    async def run(self, line_id: str, command: str) -> tuple[str, int]:
        return await self.end(self.want(line_id, command))


@contextlib.asynccontextmanager
async def an_agent(terminals: Terminals, *, fence: int = 1, line: str | None = None) -> AsyncIterator[Agent]:
    hello = {"fence": fence, "line": line, "from": FROM_NOW if line is None else 0}
    async with Terminal.attach(str(terminals.folder), KEY, role="agent", **hello) as terminal:
        yield Agent(terminal)


async def start(terminals: Terminals) -> None:
    await terminals.start("bash", "-l", env=QUIET | marking_environment(WORD), marks=WORD)


async def test_commands_run_one_after_another_in_one_shell(terminals: Terminals) -> None:
    await start(terminals)
    async with an_agent(terminals) as agent:
        await agent.until_ready()
        assert await agent.run("1", "cd /; X=41") == ("", 0)
        assert await agent.run("2", "echo $((X+1)) $PWD; false") == ("42 /\n", 1)
        assert await agent.run("3", "for n in 1 2\ndo\n\techo \"n '$n' \\\\ !\"\ndone") == (
            "n '1' \\ !\nn '2' \\ !\n",
            0,
        )
        assert await agent.run("4", "echo '语言' é; printf no-newline") == ("语言 é\nno-newline", 0)
        output, code = await agent.run("5", "echo 'never ended")
        assert (code, "unexpected EOF" in output) == (2, True), output
        output, code = await agent.run("6", "echo )")
        assert (code, "syntax error" in output) == (2, True), output
        assert await agent.run("7", "env | grep -c 'PROMPT_COMMAND\\|PS0\\|w0rd'") == ("0\n", 1)
        assert await agent.run("8", "PS1='other> '; (exit 300)") == ("", 44)
        assert await agent.run("9", "") == ("", 0)


async def test_a_long_command_and_a_long_output_arrive_whole(terminals: Terminals) -> None:
    await start(terminals)
    async with an_agent(terminals) as agent:
        await agent.until_ready()
        words = "x" * 12_000
        assert await agent.run("1", f"echo {words} | wc -c") == ("12001\n", 0)
        output, code = await agent.run("2", "seq 150000")
        assert code == 0
        assert output.startswith("1\n2\n3\n")
        assert output.endswith("\n149999\n150000\n")
        size = sum(len(f"{n}\r\n") for n in range(1, 150_001))
        assert f"\n[{size - 32 * 1024} bytes left out]\n" in output


async def test_a_line_goes_in_once_and_its_end_is_told_again(terminals: Terminals) -> None:
    await start(terminals)
    async with an_agent(terminals) as agent:
        await agent.until_ready()
        assert await agent.run("1", "echo on''ce >> lines") == ("", 0)
        again = agent.want("1", "echo on''ce >> lines")
        assert await agent.answer(again) == "known"
        assert await agent.run("2", "cat lines; echo out") == ("once\nout\n", 0)
    async with an_agent(terminals, fence=2, line="2") as next_claim:
        assert await next_claim.end(Command(next_claim.terminal, "2")) == ("once\nout\n", 0)


async def test_nothing_goes_in_while_a_command_runs_nor_too_late(terminals: Terminals) -> None:
    await start(terminals)
    async with an_agent(terminals) as agent:
        await agent.until_ready()
        first = agent.want("1", "read X; echo got $X")
        while first.line is None or first.line["begin"] is None:
            await first.read(SECONDS)
        assert await agent.answer(agent.want("2", "echo never")) == "busy"
        keys = Command(agent.terminal, "3")
        agent.terminal.line("3", text="some keys\r", keys=True, over=0, until=boottime() + 9)
        assert await agent.answer(keys) == "typed"
        async with an_agent(terminals, line="1") as beside:
            output, _ = await beside.end(Command(beside.terminal, "1"))
        assert output == "some keys\ngot some keys\n"
        assert await agent.answer(agent.want("4", "echo never", seconds=0)) == "void"


async def test_ctrl_c_ends_the_command_of_that_line_only(terminals: Terminals) -> None:
    await start(terminals)
    async with an_agent(terminals) as agent:
        await agent.until_ready()
        sleeping = agent.want("1", "echo be''gun; sleep 1000")
        while "begun" not in sleeping.kept.text():
            assert await sleeping.read(SECONDS)
        other = agent.want("0", "", interrupt=True)
        assert await agent.answer(other) == "known"
        while not sleeping.is_done:  # one that comes while bash begins a program is lost
            agent.terminal.line("1", interrupt=True, over=0, until=boottime() + 9)
            await sleeping.read(0.5)
        assert sleeping.kept.text().startswith("begun\n^C")
        assert sleeping.line["code"] == 130
        assert await agent.run("2", "echo on") == ("on\n", 0)


async def test_somebody_who_takes_over_is_not_typed_over(terminals: Terminals) -> None:
    """The agent asked before they came; what they leave at the prompt is cleared before its next line."""
    await start(terminals)
    async with an_agent(terminals) as agent:
        await agent.until_ready()
        async with terminals.seat("pilot", generation=1) as person:
            person.type("rm -r half a com")
            await person.sees("half a com")
            assert await agent.answer(agent.want("1", "echo never", over=0)) == "taken"
        for number in range(2, 8):  # bash may lose a Ctrl-C on a loaded machine: it is asked for again, as agents do
            late = agent.want(str(number), "echo mine", over=1, seconds=2.0)
            assert await agent.answer(late) in ("soon", "typed")
            while late.line is None and await late.read(3.0):
                pass
            if late.line is not None:
                break
        assert await agent.end(late) == ("mine\n", 0)


def test_a_line_whose_prompt_never_came_keeps_no_other_one_out() -> None:
    lines = Lines(WORD)
    for mark in ("D;0", "B"):
        lines.see(0, f"\x1b]133;{mark};{WORD}\x07".encode(), pilot=0, now=0.0)
    lines.somebody_typed()
    asked = {"text": "echo x\r", "over": 0}
    assert lines.want({"id": "1", "until": 5.0, **asked}, pilot=0, offset=0, now=1.0)[0] == "soon"
    assert lines.want({"id": "2", "until": 9.0, **asked}, pilot=0, offset=0, now=4.0)[0] == "busy"
    assert lines.want({"id": "3", "until": 9.0, **asked}, pilot=0, offset=0, now=5.0) == ("soon", b"\x03")


async def test_a_newer_claim_displaces_an_older_one(terminals: Terminals) -> None:
    await start(terminals)
    async with an_agent(terminals, fence=2) as old, an_agent(terminals, fence=3) as new:
        await new.until_ready()
        old.want("1", "echo never")
        assert await new.run("2", "echo mine") == ("mine\n", 0)
        with pytest.raises(Refused):
            async with an_agent(terminals, fence=2):
                pass
    async with an_agent(terminals, fence=3, line="1") as asking:
        assert Command(asking.terminal, "1").line is None


async def test_a_program_that_marks_nothing_is_told_as_that(terminals: Terminals) -> None:
    await terminals.start()
    async with an_agent(terminals) as agent:
        assert Command(agent.terminal, "1").state == "unmarked"


PROMPT, BEGUN, ENDED = (b"\x1b]133;%s;w0rd\x07" % mark for mark in (b"B", b"C", b"D;0"))


class Marked:
    """Lines alone, of a shell that has come to its first prompt, at the time 0 unless a test says otherwise."""

    def __init__(self) -> None:
        self.lines = Lines(WORD)
        self.end = 0
        assert self.see(ENDED + PROMPT) == b""

    def see(self, data: bytes, *, pilot: int = 0, now: float = 0.0) -> bytes:
        _, typing = self.lines.see(self.end, data, pilot=pilot, now=now)
        self.end += len(data)
        return typing

    def want(self, line_id: str, *, pilot: int = 0, **more: object) -> tuple[str, bytes]:
        body = {"id": line_id, "text": f"{line_id}\r", "until": 1.0, "over": 0, **more}
        return self.lines.want(body, pilot=pilot, offset=self.end, now=0.0)

    def between(self) -> None:
        """Come to where a command has ended, and no prompt is there yet."""
        assert self.want("a") == ("typed", b"a\r")
        self.see(BEGUN)
        self.see(ENDED)


@pytest.mark.parametrize("seen", [b"", BEGUN])
def test_while_a_line_of_an_agent_is_under_way_another_one_is_not_kept(seen: bytes) -> None:
    it = Marked()
    assert it.want("a") == ("typed", b"a\r")
    it.see(seen)
    assert it.want("b") == ("busy", b"")
    assert it.see((ENDED if seen else BEGUN + ENDED) + PROMPT) == b""


def test_nor_while_a_command_of_a_person_runs() -> None:
    it = Marked()
    it.lines.somebody_typed()
    it.see(BEGUN)
    assert it.want("a") == ("busy", b"")


def test_one_line_waits_for_the_prompt_that_comes() -> None:
    it = Marked()
    it.between()
    assert it.want("b") == ("soon", b"")
    assert it.want("c") == ("busy", b"")
    assert it.see(PROMPT) == b"b\r"


@pytest.mark.parametrize("late", [{"now": 1.0}, {"pilot": 1}])
def test_what_waits_for_a_prompt_that_comes_too_late_never_goes_in(late: dict[str, Any]) -> None:
    it = Marked()
    it.between()
    assert it.want("b") == ("soon", b"")
    assert it.see(PROMPT, **late) == b""
    assert it.see(ENDED + PROMPT) == b""


def test_who_comes_meanwhile_lets_nothing_in_that_waits() -> None:
    """Also a pilot that the agent had known of: it asks again."""
    it = Marked()
    it.between()
    assert it.want("b", over=1) == ("soon", b"")
    it.lines.somebody_came(is_cut=False)
    assert it.see(PROMPT, pilot=1) == b""


def test_what_a_person_typed_ahead_is_cleared_before_a_line_goes_in() -> None:
    it = Marked()
    it.lines.somebody_typed()
    it.see(BEGUN)
    it.lines.somebody_typed()
    it.see(ENDED)
    assert it.want("b") == ("soon", b"")
    assert it.see(PROMPT) == b"\x03"
    assert it.see(ENDED + PROMPT) == b"b\r"


def test_only_a_line_that_had_not_begun_is_cut() -> None:
    for is_begun in (False, True):
        it = Marked()
        it.want("a")
        it.see(BEGUN if is_begun else b"")
        it.lines.somebody_came(is_cut=True)
        assert it.lines.tell("a")["line"]["is_cut"] is not is_begun


def test_marks_without_the_word_mean_nothing() -> None:
    """Any program can print them; the word is the shell's."""
    it = Marked()
    it.want("a")
    it.see(BEGUN + b"\x1b]133;D;0;other\x07\x1b]133;B;other\x07")
    assert it.lines.state == "running"
    assert it.see(ENDED + PROMPT) == b""
    assert it.lines.state == "ready"


async def test_nothing_goes_in_after_a_stop(terminals: Terminals) -> None:
    await start(terminals)
    async with an_agent(terminals) as agent, terminals.seat("owner", fence=1) as owner:
        await agent.until_ready()
        owner.terminal.command(shut_input=True)
        owner.terminal.resize(30, 90)
        await owner.news_of("rows")  # and what came before it
        assert await agent.answer(agent.want("1", "echo never")) == "shut"
