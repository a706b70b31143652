"""One open socket of a shell: what its terminal says goes out as far as the client takes it, what its pilot types in.

Four things at once, none of which waits for another: output (behind which the terminal's ring waits, not this process),
input (so that Ctrl-C is never behind a flood), what the client says, and what the rows say.

    waiting for the terminal --attached--> passing on --the terminal is gone--> waiting, or over with its run
"""

import asyncio
import logging
from typing import Any
from uuid import UUID

from runs.decisions.core import iso
from runs.errors import Busy
from runs.ids import text_id
from streaming.hub import DATABASE_ERRORS, Hub
from streaming.presence import BEAT_SECONDS
from streaming.protocol import HEARTBEAT_SECONDS
from streaming.reader import DONE
from streaming.shells import reads
from streaming.shells.door import Door
from streaming.shells.gate import Gate
from streaming.shells.output import Output
from streaming.shells.pilot import Pilot
from streaming.shells.protocol import HandBack, Painted, ReleaseControl, Resized, Said, TakeControl, Typed
from streaming.shells.standing import Standing
from streaming.shells.watching import Watching
from streaming.topics import Stream
from tools.processes.terminals import link
from tools.processes.terminals.link import NoHost, Refused, Terminal

logger = logging.getLogger(__name__)
BEGIN_SECONDS = (0.1, 1.0)  # between looks for a terminal that has not begun: the first ones, later ones
LEAVE_SECONDS = 5.0  # after the run's end, for what the terminal still has to say


class Session:
    """Serves one connection. `begin`: the client's offset, None without one; `had`: its generation before."""

    def __init__(
        self, door: Door, hub: Hub, stream: Stream, *, shell_id: UUID, folder: str, begin: int | None, had: int | None
    ) -> None:
        self.door, self.hub, self.stream = door, hub, stream
        self.shell_id, self.key, self.folder, self.had = shell_id, text_id("shell", shell_id), folder, had
        self.output = Output(door, folder, self.key, begin)
        self.gate = Gate(door, hub.db, stream.run_id, door.user_id)
        self.pilot: Pilot | None = None
        self.standing = Standing(door, hub, stream, self.gate, shell_id)
        self.watching = Watching(hub.db, stream.run_id, door.user_id, tell=self._say_watching)
        self._size: Resized | None = None
        self._terminal: Terminal | None = None
        self._exit: dict[str, Any] | None = None  # heard of; told after the last byte that the program wrote
        self._told: reads.InControl | None = None  # of who is in control
        self._saying = asyncio.Lock()
        self._rejoins = self._is_ready = self._has_exited = self._tells_pilot = False

    @property
    def _is_pilot(self) -> bool:
        return self.pilot is not None and self.pilot.generation is not None

    async def serve(self) -> None:
        """Serve until the client leaves, or `reader.ending` is set; then the caller closes."""
        await self.standing.look()
        await self.watching.stand(watches=not self._is_pilot)
        await self.watching.look()
        works = [self._follow(), self._tell(), self.gate.pass_on(), self.gate.tell(), self._hear()]
        works += [self.watching.keep(), self._beat()]
        if self.pilot is not None:
            works.append(self.pilot.keep())
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
            self.door.reader.evict = tasks[0].cancel
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()

    # What the terminal says

    async def _follow(self) -> None:
        tries = 0
        while True:
            try:
                await self._pass_on()
                tries = 0
            except NoHost:
                tries += 1
            if self._rejoins:
                self._rejoins = False
                continue
            if self.standing.is_over:
                await self._say_end()
                return
            await self.standing.wait_for_change(BEGIN_SECONDS[tries > 20])

    async def _pass_on(self) -> None:
        """Attach, and pass on what comes until the terminal is gone. Raises: NoHost."""
        hello = {"role": "viewer", **(await self.output.hello())}
        generation = self.pilot.generation if self.pilot is not None else None
        if generation is not None:
            hello |= {"role": "pilot", "generation": generation}
        try:
            async with Terminal.attach(self.folder, self.key, **hello) as terminal:
                self._terminal = terminal
                await self._welcome(terminal, is_pilot=generation is not None)
                async for item in terminal:
                    await self._take(item)
                    if self._exit is not None and (self.output.next or 0) >= self._exit["end"]:
                        await self._say_exit(self._exit["exit"], by_itself=self._exit["by_itself"])
        except Refused:
            assert self.pilot is not None  # only a pilot's generation can be refused to us
            self.pilot.lose()
            self._rejoins = True
        finally:
            self._terminal = None
            self.gate.leave()

    async def _welcome(self, terminal: Terminal, *, is_pilot: bool) -> None:
        welcome = terminal.welcome
        await self.output.correct(welcome["end"])
        if is_pilot:
            self.gate.open(terminal, welcome["taken"])
            if self._size is not None:
                terminal.resize(self._size.rows, self._size.cols)
        if not self._is_ready:
            self._is_ready = True
            await self._say_ready(welcome, is_pilot=is_pilot)
        await self._say_pilot()
        await self.output.begin()
        if "exit" in welcome:
            self._exit = welcome

    async def _say_ready(self, welcome: dict[str, Any], *, is_pilot: bool) -> None:
        state = self.standing.state
        await self.door.say(
            "ready", v=1, shell=self.key, run=text_id("run", self.stream.run_id),
            role="pilot" if is_pilot else "viewer",
            generation=self.pilot.generation if self.pilot is not None else None,
            grace_s=None if state is None else state.grace_seconds, rows=welcome["rows"], cols=welcome["cols"],
            sized_at=welcome.get("sized_at", 0),  # a terminal that is older than this program does not say
            start=welcome["start"], end=welcome["end"], taken=welcome["taken"], **{"from": self.output.next},
            # Nobody has typed since: what this client sent then, from `taken` on, is to be sent again.
            continues=is_pilot and self.had is not None and welcome["before"] == self.had,
            heartbeat_s=HEARTBEAT_SECONDS, at=None if state is None else iso(state.at),
        )  # fmt: skip

    async def _take(self, item: link.Item) -> None:
        match item:
            case link.Output(offset, data):
                await self.output.send(offset, data)
            case link.Skipped(begin, end):
                await self.output.skip(begin, end)
            case link.Taken(offset):
                self.gate.take(offset)
            case link.News(news):
                await self._take_news(news)

    async def _take_news(self, news: dict[str, Any]) -> None:
        if "pilot" in news:
            if self.pilot is not None and (self.pilot.generation or 0) < news["pilot"]:
                self.pilot.lose()
            await self._say_pilot()
        elif "rows" in news:
            await self.door.say("size", rows=news["rows"], cols=news["cols"], sized_at=news["at"])
        elif "gone" not in news and "exit" in news:
            self._exit = news
        elif news.get("input") == "shut":
            await self.gate.shut()
        elif "input" in news:  # a gap, or a permit that was void: ask again, send again
            self.gate.typing.again(news["taken"])

    async def _say_pilot(self, *, if_new: bool = False) -> None:
        """Say who is in control, as the rows have it; what was read first is said first."""
        self._tells_pilot = False
        async with self._saying:
            found = await reads.read_pilot(self.hub.db, self.stream.run_id)
            if if_new and found == self._told:
                return
            self._told = found
            mine = self.pilot is not None and found is not None and found.generation == self.pilot.generation
            more = {"taken": self.gate.typing.taken} if mine and self.gate.terminal is not None else {}
            generation, name = (None, None) if found is None else (found.generation, found.name)
            await self.door.say("pilot", generation=generation, name=name, mine=mine, **more)
        await self.watching.stand(watches=not self._is_pilot)

    async def _say_watching(self, people: list[dict[str, Any]], others: int) -> None:
        await self.door.say("watching", people=people, others=others)

    async def _say_exit(self, code: int | None, *, by_itself: bool) -> None:
        if not self._has_exited:
            self._has_exited = True
            await self.standing.look()
            state = self.standing.state
            why = "exited" if by_itself or state is None else state.why
            is_signal = code is not None and code < 0
            await self.door.say(
                "exit",
                code=None if is_signal else code,
                signal=-code if code is not None and is_signal else None,
                why=why,
            )

    async def _say_end(self) -> None:
        """The run has ended and there is no terminal any more: say what is known, and close."""
        if not self._has_exited:
            with_row = await reads.read_state(self.hub.db, self.shell_id)
            code = None if with_row is None else -with_row.signal if with_row.signal else with_row.exit_code
            told = self._exit or {"exit": code, "by_itself": False}
            await self._say_exit(told["exit"], by_itself=told["by_itself"])
        self.door.reader.end(DONE)

    # What the rows say

    async def _tell(self) -> None:
        """Tell heartbeats and changes of the run, until the connection is to end."""
        reader, seen = self.door.reader, self.standing.seen
        leave_at: float | None = None
        while reader.ending is None:
            if reader.wants_beat:
                reader.wants_beat = False
                await self.door.say("heartbeat")
            if seen != self.standing.seen:
                seen = self.standing.seen
                await self.standing.look()
                await self.watching.look()
                self.standing.changed()
                if self._is_ready:  # a terminal does not hear of pilots that leave
                    await self._say_pilot(if_new=True)
            if self._tells_pilot:
                await self._say_pilot()
            loop = asyncio.get_running_loop()
            if self.standing.is_over and leave_at is None:
                leave_at = loop.time() + LEAVE_SECONDS
            try:
                async with asyncio.timeout_at(leave_at):
                    await reader.wait()
            except TimeoutError:
                await self._say_end()

    async def _beat(self) -> None:
        """Ask for signs of life that come within the lease: of a pilot, and of who watches."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self.door.reader.beat()

    # What the client says

    async def _hear(self) -> None:
        async for said in self.door.heard():
            self.watching.sign_of_life()
            if self.pilot is not None:
                self.pilot.sign_of_life()
            await self._obey(said)

    async def _obey(self, said: Said) -> None:
        match said:
            case Typed(offset, data):
                await self.gate.add(offset, data)
            case Painted(offset):
                self.output.painted(offset)
            case Resized():
                self._size = said
                if self.gate.terminal is not None:
                    self.gate.terminal.resize(said.rows, said.cols)
            case ReleaseControl() | HandBack() if self.pilot is not None:
                await self._change_hands(said, self.pilot)
            case TakeControl() if self.pilot is not None and self.pilot.generation is None:
                await self._change_hands(said, self.pilot)
            case TakeControl() | HandBack():
                await self._say_pilot()

    async def _change_hands(self, said: Said, pilot: Pilot) -> None:
        try:
            if isinstance(said, TakeControl):
                await self.door.note_take_over(await pilot.take_over())
                self._rejoin()
            else:
                self.gate.leave()
                released = isinstance(said, ReleaseControl)
                await (pilot.release() if released else self.door.note_hand_back(await pilot.hand_back()))
        except (*DATABASE_ERRORS, Busy) as error:
            logger.warning("shell.hands_not_changed", extra={"error": repr(error)})
        if self.gate.terminal is None and pilot.generation is None:
            await self.standing.look()  # whose it is comes first: theirs no more who handed it back
            await self._say_pilot()

    def _rejoin(self) -> None:
        """Attach anew, as what we are now; output goes on where it is."""
        self._rejoins = True
        if self._terminal is not None:
            self._terminal.close()

    def on_lost(self) -> None:
        """Somebody else is, or was, in control: nothing of ours goes in any more, and the client is told."""
        self.gate.leave()
        self._tells_pilot = True
        self.door.reader.poke()
