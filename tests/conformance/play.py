"""Plays one case with one client over one transport, and judges what the client was given.

A case (cases/*.json) is: `run`, what the probe agent does (its text, so many deltas, a question); `steps`, one verb
each (below); `expect`. Whatever a case says besides, these hold in each: the events are those that are stored, each
once, in order, from the cursor or from a snapshot on; and fold(what was given) = fold(what is stored).

    wait: status              until the run has this status ("ended": any of the last ones)
    open: {...}               the client begins: after, faults, tail, silence_seconds, pause_after, token, run; it
                              leaves at `leave_at` (as `see`), or it goes on to the end, which is waited for
    see: {type, seq, attempt} until the client has been given this event, or a view that has it; or a {gap}
    answer: value             to the run's question
    stop, retry, go_on: true  the run is stopped, tried again; a paused client goes on
    remember: place           a cursor, for a later `open` with after: "remembered"
    idle: seconds             nothing happens for so long
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runs.fold import fold, fold_all
from runs.fold_parts import first_seq
from runs.reading import machine
from streaming.client.line import Transport
from tests.conformance.proxy import Fault, Proxy, faulty_proxy
from tests.conformance.readers import Frame, Name, Reader, Wanted, is_there, open_reader, transports_of
from tests.conformance.site import Server

CASES = Path(__file__).parent / "cases"
UNKNOWN_RUN = "run_" + "0" * 32
OTHER_STREAM = "st_" + "0" * 32


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One case as its file has it."""

    topic: str
    id: str
    name: str
    steps: list[dict[str, Any]]
    expect: dict[str, Any]
    run: dict[str, Any] = field(default_factory=dict)
    readers: tuple[Name, ...] = ()
    is_slow: bool = False

    def __post_init__(self) -> None:
        if not self.readers:  # the one that reads by hand has one connection, and lives through no fault
            is_spoiled = any("faults" in step.get("open", {}) for step in self.steps)
            object.__setattr__(self, "readers", (() if is_spoiled else ("wire",)) + ("sync", "async", "live.js"))


@dataclass(frozen=True, slots=True)
class Combination:
    """A case with a client and a transport."""

    case: Case
    reader: Name
    transport: Transport

    def __str__(self) -> str:
        return f"{self.case.id}-{self.reader}-{self.transport}"


def read_cases() -> list[Case]:
    """Read all cases, topic by topic."""
    return [
        Case(topic=path.stem, **case) for path in sorted(CASES.glob("*.json")) for case in json.loads(path.read_text())
    ]


def sample(cases: list[Case]) -> list[Combination]:
    """Give each case with each client that can be run here, over one of its transports, in turn."""
    return [
        Combination(case, reader, transports_of(reader)[(i + j) % len(transports_of(reader))])
        for i, case in enumerate(cases)
        for j, reader in enumerate(case.readers)
        if is_there(reader)
    ]


def combinations(cases: list[Case]) -> list[Combination]:
    """Give each case with each client that can be run here, over each of its transports."""
    return [
        Combination(case, reader, transport)
        for case in cases
        for reader in case.readers
        if is_there(reader)
        for transport in transports_of(reader)
    ]


@contextlib.contextmanager
def hurried() -> Iterator[None]:
    """Let Python clients come back after milliseconds: what is tested is that they come back, not how late."""
    before = machine.SHORTEST_WAIT_SECONDS, machine.LONGEST_WAIT_SECONDS
    machine.SHORTEST_WAIT_SECONDS, machine.LONGEST_WAIT_SECONDS = 0.02, 0.2
    try:
        yield
    finally:
        machine.SHORTEST_WAIT_SECONDS, machine.LONGEST_WAIT_SECONDS = before


def play(server: Server, chosen: Combination) -> None:
    """Play it. Raises: AssertionError that says what is wrong."""
    with faulty_proxy(server.base) as proxy:
        _Play(server, proxy, chosen).run()


def is_seen(frame: Frame, what: dict[str, Any]) -> bool:
    """Say whether a frame is the event that was waited for, a view that has it, or the gap."""
    if frame["type"] == "gap" or "gap" in what:
        return frame["type"] == "gap" and frame["reason"] == what.get("gap")
    if frame["type"] != "snapshot":
        return all(frame.get(key) == value for key, value in what.items())
    view = frame["view"]
    said = {"attempt": view["attempt"], "seq": min(view["seq"], what.get("seq", 0)), "type": f"run.{view['status']}"}
    return all(said.get(key) == value for key, value in what.items())


class _Play:
    def __init__(self, server: Server, proxy: Proxy, chosen: Combination) -> None:
        self.server, self.proxy, self.chosen, self.case = server, proxy, chosen, chosen.case
        self.reader = Reader()
        self.wanted = Wanted("", "", "")
        self.run_id = ""
        self.opened_at = 0.0
        self.remembered: tuple[str | None, Frame | None] = (None, None)

    def run(self) -> None:
        self.run_id = self.server.start("probe", **({"n": 20} | self.case.run))
        for step in self.case.steps:
            ((verb, argument),) = step.items()
            getattr(self, f"_{verb}")(argument)
        outcome = self.reader.until_end()
        took = time.monotonic() - self.opened_at
        self._judge(self.case.expect, outcome, took)

    def _wait(self, status: str) -> None:
        self.server.until(self.run_id, *(() if status == "ended" else (status,)))

    def _answer(self, value: Any) -> None:
        self.server.answer(self.run_id, value)

    def _stop(self, _: Any) -> None:
        self.server.stop(self.run_id)

    def _retry(self, _: Any) -> None:
        self.server.retry(self.run_id)

    def _go_on(self, _: Any) -> None:
        self.reader.go_on.set()

    def _remember(self, place: str) -> None:
        self.remembered = self._place(place)

    def _idle(self, seconds: float) -> None:
        time.sleep(seconds)  # what is asked is that nothing happens meanwhile

    def _see(self, what: dict[str, Any]) -> None:
        self.reader.until(lambda reader: any(is_seen(frame, what) for frame in reader.frames), f"{what}")

    def _open(self, how: dict[str, Any]) -> None:
        for fault in how.get("faults", []):
            times = fault.get("times", 1)
            self.proxy.faults += [Fault(fault["kind"], fault.get("after_bytes", 0))] * times
        after, view = self._place(how.get("after", "start"))
        leave_at = how.get("leave_at")
        self.wanted = Wanted(
            base=self.proxy.base,
            token="outlive_wrong" if how.get("token") == "wrong" else self.server.token,
            run_id=UNKNOWN_RUN if how.get("run") == "unknown" else self.run_id,
            after=after,
            view=view,
            is_tail=how.get("tail", False),
            silence_seconds=how.get("silence_seconds", 35.0),
            pause_after=how.get("pause_after"),
            is_enough=lambda frame: leave_at is not None and is_seen(frame, leave_at),
        )
        self.opened_at = time.monotonic()
        self.reader = open_reader(self.chosen.reader, self.chosen.transport, self.wanted)

    def _place(self, name: str) -> tuple[str | None, Frame | None]:
        """Give the cursor that a case names, and the view at it."""
        if name == "start":
            return None, None
        if name == "remembered":
            return self.remembered
        if name == "malformed":
            return "not a cursor", None
        stored = self.server.stored(self.run_id)
        head, stream = stored[-1]["seq"], stored[-1]["stream_id"]
        if name == "other_run":
            return f"{OTHER_STREAM}:5", {**fold_all(stored[:5]), "stream_id": OTHER_STREAM}
        seq = {"head": head, "head-1": head - 1, "middle": head // 2, "ahead": head + 1000}[name]
        return f"{stream}:{seq}", {**fold_all(stored[:seq]), "seq": seq}

    def _judge(self, expect: dict[str, Any], outcome: str, took_seconds: float) -> None:
        assert outcome == expect.get("ends", "ended"), f"it ended as {outcome}"
        assert took_seconds <= expect.get("within_seconds", 120.0), f"it took {took_seconds:.1f} s"
        least = expect.get("cuts", 0)
        assert self.reader.cuts >= least or self.chosen.transport == "pages", f"{self.reader.cuts} cuts, not {least}"
        is_polling = (self.chosen.reader, self.chosen.transport) == (
            "live.js",
            "pages",
        )  # it tries the socket meanwhile
        assert is_polling or self.reader.cuts <= expect.get("most_cuts", 10**6), f"{self.reader.cuts} cuts"
        assert not any(self.server.token.encode() in line.split(b"\r\n", 1)[0] for line in self.proxy.heard)
        if outcome not in ("ended", "left"):
            assert self.reader.frames == []
            return
        stored = {frame["seq"]: frame for frame in self.server.stored(self.run_id)}
        self._judge_order(stored)
        view = self.wanted.view
        for frame in self.reader.frames:
            view = frame["view"] if frame["type"] == "snapshot" else fold(view, frame)
        assert view == fold_all(stored.values()), "the view is not that of the stored events"
        self._judge_content(expect, stored)

    def _judge_order(self, stored: dict[int, Frame]) -> None:
        """Each event is the stored one and follows the one before it, or a snapshot."""
        stream, _, seq = (self.wanted.after or ":0").partition(":")
        here, known = stream or None, int(seq)
        for frame in self.reader.frames:
            if frame["type"] == "snapshot":
                here, known = frame["view"]["stream_id"], frame["view"]["seq"]
            elif "seq" in frame:
                assert here in (None, frame["stream_id"]), f"an event of another stream after {here}:{known}"
                assert first_seq(frame) == known + 1, f"{frame['seq']} after {known}"
                here, known = frame["stream_id"], frame["seq"]
                assert frame == stored.get(known) or frame["attempt"] != stored[1]["attempt"], f"{known} is another one"

    def _judge_content(self, expect: dict[str, Any], stored: dict[int, Frame]) -> None:
        frames = self.reader.frames
        kinds = [frame["type"] for frame in frames if "seq" not in frame]
        if self.chosen.reader == "live.js":  # it has a view in place of gaps, and begins with one
            assert kinds.count("snapshot") <= (self.wanted.view is None) + len(expect.get("gaps", [])) + 1
        else:
            gaps = [frame["reason"] for frame in frames if frame["type"] == "gap"]
            assert gaps == expect.get("gaps", [])
            assert kinds == ["gap", "snapshot"] * len(gaps)
        if "text_sha256" in expect:
            text = "".join(frame["data"]["delta"] for frame in stored.values() if frame["type"] == "text.delta")
            assert hashlib.sha256(text.encode()).hexdigest() == expect["text_sha256"]
