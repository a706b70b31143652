"""The fold: the law, its totality, and the same answer in Python and JavaScript, compacted logs included."""

import hashlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runs import compaction
from runs.fold import FOLD_VERSION, empty_view, fold, fold_all

ROOT = Path(__file__).resolve().parents[2]
IDS = ["a", "b", "c", ""]
TYPES = [
    "run.created", "attempt.created", "run.started", "run.titled", "claim.started", "claim.lost",
    "step.started", "step.finished",
    "model.started", "model.finished", "text.start", "text.delta", "text.compacted", "text.end",
    "tool.started", "tool.dispatched", "tool.progress", "tool.result", "tool.unknown",
    "input.requested", "input.answered", "input.expired",
    "run.waiting", "run.resumed", "run.cancel_requested", "run.cancelling", "run.completed", "run.failed",
    "run.cancelled", "run.stop_forced", "run.needs_reconciliation", "run.reconciled", "operation.settled",
    "operation.late_receipt",
    "compensation.requested", "compensation.dispatched", "compensation.finished",
    "child.started", "child.finished", "child.taken_over", "child.handed_back",
    "child.settled", "artifact.created", "usage",
    "never.heard.of", "constructor", "__proto__", "toString", "hasOwnProperty",
]  # fmt: skip
# No whole-numbered floats: JavaScript reads 1.0 as the integer 1, and our encoder never writes one for a count.
SCALARS = [None, True, False, 0, 1, -5, 2**53 - 1, 2**53 + 2, 0.5, -1.25, "", "a", "b", "\u2028", "\U0001f469", "x" * 9]
KEYS = ["x", "__proto__", "constructor", "seq", "type", "operation_id", ""]
ID_FIELDS = ["message_id", "question_id", "operation_id", "artifact_id", "cancel_id", "child_id", "parent_id"]
TEXT_FIELDS = [
    "delta", "text", "label", "agent", "title", "proof", "path", "kind", "name", "effect", "tool", "operation_key",
    "message", "code", "by", "note", "waiting_for", "wake_at", "prompt", "expires_at", "content_type", "provider",
    "model", "request_id", "stop_reason", "provider_side",
]  # fmt: skip
JSON_FIELDS = ["input", "result", "value", "error", "data", "arguments", "pending", "effects", "schema", "usage"]
CHOICES: dict[str, list[Any]] = {
    "final": [True, False], "ok": [True, False], "reason": ["stop", "superseded", "error", "user"],
    "state": ["finished", "failed", "superseded", "abandoned"], "outcome": ["confirmed", "refuted"],
    "status": ["completed", "failed", "cancelled"], "stopped": [True, False, 1],
    "bytes": [0, 9], "retry_of": [1, 2], "reused_from": [1, "1", -1],
    "artifacts": [[], [{"artifact_id": "a", "name": "f"}, 5, None], [{"artifact_id": "a"}, {"artifact_id": "b"}], {}],
    "from_seq": [0, 1, 2, 5, 2**60, "1", True, 1.5], "to_seq": [3, 9, None],
    "effects": [[{"operation_id": i, "outcome": o} for i in "ab"] + [5] for o in ("stopped", "committed", 7)] + [{}],
    "error": [{"code": "stopped"}, {"code": "permit_expired"}, {"code": []}, "stopped", None],
    "input_tokens": [0, 7], "output_tokens": [1, 9],
    "operations": [[], [{"operation_id": "a"}], [{"operation_id": "b"}, {"operation_id": "c"}, 5]],
}  # fmt: skip
FIELDS = [*ID_FIELDS, *TEXT_FIELDS, *JSON_FIELDS, *CHOICES]


class Fate(random.Random):
    """Draws logs: mostly what our code writes, with nonsense, repeats, holes and foreign frames in between."""

    def choice(self, seq: Any) -> Any:
        """Three times as fast as the library's: drawing is most of what ten thousand logs cost."""
        return seq[int(self.random() * len(seq))]

    def randrange(self, start: int, *more: int) -> int:  # type: ignore[override]
        assert not more
        return int(self.random() * start)

    def json(self, depth: int = 2) -> Any:
        shape = self.randrange(6)
        if depth and shape == 0:
            return [self.json(depth - 1) for _ in range(self.randrange(3))]
        if depth and shape == 1:
            return {self.choice(KEYS): self.json(depth - 1) for _ in range(self.randrange(3))}
        return self.choice(SCALARS)

    def data(self) -> Any:
        if self.randrange(5) == 0:
            hostile = {self.choice([*FIELDS, "__proto__", "constructor"]): self.json() for _ in range(6)}
            return self.choice([hostile, hostile, self.json()])
        data: dict[str, Any] = {key: self.choice(IDS) for key in ID_FIELDS}
        data |= {key: self.choice(["", "hello", "\u2028", "\U0001f469"]) for key in TEXT_FIELDS}
        data |= {key: self.json() for key in JSON_FIELDS}
        data |= {key: self.choice(values) for key, values in CHOICES.items()}
        return {key: value for key, value in data.items() if self.randrange(8)}

    def log(self) -> list[Any]:
        frames: list[Any] = []
        seq = 0
        for _ in range(self.randrange(26)):
            seq += self.choice([1, 1, 1, 1, 1, 1, 0, 2, -1])
            one: dict[str, Any] = {"v": 1, "seq": seq, "type": self.choice(TYPES), "stream_id": "st_1"}
            one |= {"run_id": "run_1", "attempt": 1, "ts": f"t{seq}", "step_id": self.choice(IDS), "data": self.data()}
            if self.randrange(10) == 0:
                one |= {self.choice([*one, "__proto__"]): self.json() for _ in range(2)}
            frames.append(self.json() if self.randrange(30) == 0 else one)
        return frames

    def writing(self) -> list[Any]:
        """Draw what is stored of a stream that mostly writes texts: seqs from 1 without a hole, deltas in rows."""
        frames: list[Any] = []
        while len(frames) < 40 and self.randrange(30):
            place = {"run_id": "run_1", "attempt": 1, "step_id": self.choice(["a", "b"])}
            kind = self.choice(["text.start", "text.end", "text.delta", "text.delta", "text.delta", self.choice(TYPES)])
            for _ in range(self.choice([1, 1, 2, 3, 9]) if kind == "text.delta" else 1):
                one = {"v": 1, "seq": len(frames) + 1, "type": kind, "stream_id": "st_1", "ts": f"t{len(frames)}"}
                data = self.data() if self.randrange(4) == 0 else {}
                if isinstance(data, dict):
                    data |= {"message_id": self.choice(["a", "a", "a", "b"]), "delta": self.choice(["", "x", "\u2028"])}
                if self.randrange(20) == 0:
                    one[self.choice(["run_id", "attempt", "step_id"])] = self.json()
                frames.append({**place, **one, "data": data})
        return frames


# A seed, not drawn pieces: a log of 25 events with 40 fields each is drawn a hundred times faster so.
LOGS = st.integers(0, 2**64).map(lambda seed: Fate(seed).log())


class Node:
    """fold.js in one Node process for all examples."""

    def __init__(self, program: str) -> None:
        script = ROOT / "tests/runs/fold_in_node.mjs"
        fold_js = ROOT / "streaming/static/streaming/fold.js"
        self.process = subprocess.Popen(
            [program, str(script), str(fold_js)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def fold_each(self, logs: list[tuple[Any, list[Any]]]) -> Any:
        """Fold several logs, each from its view, in one round trip."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(logs) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def fold_all(self, frames: list[Any], view: Any = None) -> Any:
        return self.fold_each([(view, frames)])[0]

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not on PATH: the fold in JavaScript is not compared")
    held = Node(program)
    yield held
    held.close()


MANY = settings(max_examples=300, deadline=None, database=None)
RANDOM_LOGS = int(os.environ.get("OUTLIVE_RANDOM_LOGS", "10000"))
BATCH = 500


@pytest.mark.timeout(300)
def test_ten_thousand_random_logs_fold_to_the_same_in_both_languages(node: Node) -> None:
    """Half of them any nonsense, half of them stored logs of texts, which are folded compacted as well."""
    for start in range(0, RANDOM_LOGS, BATCH):
        logs = [Fate(seed).writing() if seed % 2 else Fate(seed).log() for seed in range(start, start + BATCH)]
        compacted = [list(compaction.coalesce(log)) for log in logs[1::2]]
        views = [fold_all(log) for log in logs]
        assert [fold_all(log) for log in compacted] == views[1::2], start
        whole = json.loads(json.dumps([*views, *views[1::2]]))
        found = node.fold_each([(None, log) for log in [*logs, *compacted]])
        wrong = [start + i for i, (ours, theirs) in enumerate(zip(whole, found, strict=True)) if ours != theirs]
        assert wrong == [], f"seeds of logs that JavaScript folds otherwise: {wrong}"


def ends_inside(span: compaction.Span, k: int) -> bool:
    return span.first <= k < span.last


@MANY
@given(st.integers(0, 2**64))
def test_a_compacted_log_from_any_snapshot_outside_of_a_range_gives_the_whole(node: Node, seed: int) -> None:
    log = Fate(seed).writing()
    spans = compaction.find_spans(log)
    compacted = list(compaction.coalesce(log))
    whole = fold_all(log)
    asked = []
    for k in range(len(log) + 1):
        snapshot = fold_all(log[:k])
        rest = [frame for frame in compacted if frame["seq"] > k]
        if any(ends_inside(span, k) for span in spans):
            assert fold(snapshot, rest[0]) is snapshot  # never a text twice: the reader sees that it does not follow
        else:
            assert fold_all(rest, snapshot) == whole
            asked.append((snapshot, rest))
    assert node.fold_each(asked) == [json.loads(json.dumps(whole))] * len(asked)


def test_the_version_of_the_fold_is_raised_when_it_gives_other_views() -> None:
    """Stored views of another version are not used, so a change that forgets the version would mix two folds."""
    views = [fold_all(Fate(seed).log()) for seed in range(400)] + [
        fold_all(Fate(seed).writing()) for seed in range(400)
    ]
    digest = hashlib.sha256(json.dumps(views, sort_keys=True).encode()).hexdigest()[:16]
    assert (FOLD_VERSION, digest) == (6, "6e2c25ed49052fa4"), "raise FOLD_VERSION, then write the new digest here"


@MANY
@given(LOGS)
def test_python_and_javascript_build_equal_views(node: Node, frames: list[Any]) -> None:
    assert node.fold_all(frames) == json.loads(json.dumps(fold_all(frames)))


@MANY
@given(LOGS)
def test_a_snapshot_at_any_place_and_the_rest_give_the_whole(frames: list[Any]) -> None:
    whole = fold_all(frames)
    for k in range(len(frames) + 1):
        snapshot = json.loads(json.dumps(fold_all(frames[:k])))
        assert fold_all(frames[k:], snapshot) == whole


@MANY
@given(LOGS)
def test_no_view_is_changed_in_place(frames: list[Any]) -> None:
    view = empty_view()
    for frame in frames:
        before = json.dumps(view)
        after = fold(view, frame)
        assert json.dumps(view) == before
        view = after


@MANY
@given(LOGS)
def test_a_repeated_log_changes_nothing(frames: list[Any]) -> None:
    view = fold_all(frames)
    if view["stream_id"] is not None:
        assert fold_all(frames, view) == view


def frame(seq: int, type_: str, step_id: str | None = None, **data: Any) -> dict[str, Any]:
    head = {"v": 1, "seq": seq, "type": type_, "run_id": "run_1", "attempt": 1, "stream_id": "st_1"}
    return {**head, "ts": f"t{seq}", "step_id": step_id, "data": data}


def test_text_of_a_dead_claim_leaves_the_answer() -> None:
    log = [
        frame(1, "run.created", agent="chat", title="T", input={}),
        frame(2, "step.started", "s", path="1", kind="model", name="model"),
        frame(3, "text.start", "s", message_id="m1", role="assistant"),
        frame(4, "text.delta", "s", message_id="m1", delta="half"),
        frame(5, "text.end", "s", message_id="m1", final=False, reason="superseded"),
        frame(6, "step.started", "s", path="1", kind="model", name="model"),
        frame(7, "text.start", "s", message_id="m2", role="assistant"),
        frame(8, "text.delta", "s", message_id="m2", delta="whole"),
        frame(9, "text.end", "s", message_id="m2", final=True),
    ]
    view = fold_all(log)
    assert [(m["text"], m["state"]) for m in view["messages"]] == [("half", "superseded"), ("whole", "final")]
    assert [s["message_ids"] for s in view["steps"]] == [["m1", "m2"]]


def test_text_cut_by_a_stop_stays_as_interrupted() -> None:
    log = [
        frame(1, "text.start", "s", message_id="m"),
        frame(2, "text.delta", "s", message_id="m", delta="half"),
        frame(3, "text.end", "s", message_id="m", final=False, reason="stop"),
        frame(4, "text.delta", "s", message_id="m", delta="too late"),
    ]
    assert [(m["text"], m["state"]) for m in fold_all(log)["messages"]] == [("half", "interrupted")]


def test_an_operation_is_followed_from_dispatch_to_its_verdict() -> None:
    log = [
        frame(1, "step.started", "s", path="1", kind="tool", name="create_invoice", effect="idempotent"),
        frame(2, "tool.started", "s", tool="create_invoice", effect="idempotent", arguments={}, operation_key="k"),
        frame(3, "tool.dispatched", "s", operation_key="k", operation_id="op_1"),
    ]
    view = fold_all(log)
    assert view["operations"] == [
        {"operation_id": "op_1", "operation_key": "k", "tool": "create_invoice", "state": "dispatched"}
    ]
    lost = fold(view, frame(4, "tool.unknown", "s", operation_key="k", operation_id="op_1", message="no answer"))
    assert lost["operations"][0]["state"] == "unknown"
    ended = fold(lost, frame(5, "run.needs_reconciliation", operations=[{"operation_id": "op_1"}]))
    assert (ended["status"], ended["terminal_at"]) == ("needs_reconciliation", "t5")
    settled = fold(ended, frame(6, "operation.settled", operation_id="op_1", outcome="confirmed"))
    assert settled["operations"][0]["state"] == "confirmed"
    undone = fold(settled, frame(7, "compensation.finished", operation_id="op_1", state="succeeded"))
    assert (undone["operations"][0]["state"], undone["operations"][0]["undo"]) == ("confirmed", "succeeded")
    assert fold(settled, frame(7, "run.reconciled", status="completed"))["status"] == "completed"
    received = fold(view, frame(4, "tool.result", "s", ok=True, value={"id": 8}, proof="http 201"))
    assert received["operations"][0]["state"] == "succeeded"
    assert received["steps"][0]["tool"]["value"] == {"id": 8}


@pytest.mark.parametrize(
    ("result", "operation", "state"),
    [
        ({"stopped": True, "error": {"code": "shell_ended"}}, "stopped", "stopped"),
        ({"error": {"code": "stopped"}}, "stopped", "stopped"),  # as it was told before 5
        ({"stopped": True, "error": {"code": "permit_expired"}}, "refuted", "stopped"),
        ({"error": {"code": "timeout"}}, "failed", "failed"),
        ({"stopped": "yes", "error": "stopped"}, "failed", "failed"),
    ],
)
def test_what_a_stop_ended_is_neither_refused_nor_failed(node: Node, result: Any, operation: str, state: str) -> None:
    log = [
        frame(1, "step.started", "s", path="1", kind="tool", name="shell_run", effect="write"),
        frame(2, "tool.started", "s", tool="shell_run", effect="write", arguments={}, operation_key="k"),
        frame(3, "tool.dispatched", "s", operation_key="k", operation_id="op_1"),
        frame(4, "tool.result", "s", ok=False, **result),
        frame(5, "step.finished", "s", state="failed", error={"code": "x"}),
    ]
    view = fold_all(log)
    assert (view["operations"][0]["state"], view["steps"][0]["state"]) == (operation, state)
    assert view["steps"][0]["tool"]["ok"] is False
    assert node.fold_all(log) == view


def test_a_view_of_an_older_fold_is_continued(node: Node) -> None:
    """A checkpoint whose events are gone goes on as it is: its calls do not say yet whether a stop ended them."""
    view = fold_all([
        frame(1, "step.started", "s", path="1", kind="tool", name="shell_run", effect="write"),
        frame(2, "tool.started", "s", tool="shell_run", effect="write", arguments={}, operation_key="k"),
    ])  # fmt: skip
    del view["steps"][0]["tool"]["stopped"]
    assert fold(view, frame(3, "step.finished", "s", state="failed"))["steps"][0]["state"] == "failed"


@pytest.mark.parametrize("outcome", ["stopped", "committed", "finished_first", "not_started", "unknown", None, "x"])
def test_the_receipt_of_a_stop_settles_only_what_had_no_answer(node: Node, outcome: Any) -> None:
    log = [
        frame(1, "tool.dispatched", "s", operation_key="k", operation_id="op_1"),
        frame(2, "tool.dispatched", "t", operation_key="l", operation_id="op_2"),
        frame(3, "tool.unknown", "t", operation_id="op_2"),
        frame(4, "run.cancelled", effects=[{"operation_id": f"op_{n}", "outcome": outcome} for n in (1, 2, 3)] + [7]),
    ]
    word = {"stopped": "stopped", "not_started": "refuted", "committed": "succeeded", "finished_first": "succeeded"}
    view = fold_all(log)
    assert [o["state"] for o in view["operations"]] == [word.get(outcome, "dispatched"), "unknown"]
    assert node.fold_all(log) == view


def test_a_stop_shuts_open_questions_and_keeps_who_asked() -> None:
    log = [
        frame(1, "input.requested", "s", question_id="q_1", prompt="Send it?", schema={}, expires_at="later"),
        frame(2, "run.waiting", waiting_for="input", wake_at=None),
        frame(3, "run.cancel_requested", cancel_id="cancel_1", reason="user", by="ann", note="", pending=[]),
    ]
    view = fold_all(log)
    assert view["questions"][0]["state"] == "shut"
    assert view["waiting"] is None
    ended = fold(view, frame(4, "run.cancelled", reason="user", effects=[{"outcome": "abandoned"}]))
    assert ended["cancel"]["by"] == "ann"
    assert ended["cancel"]["effects"] == [{"outcome": "abandoned"}]


def test_a_stop_that_was_forced_says_who_forced_it_and_keeps_who_asked(node: Node) -> None:
    asked = frame(1, "run.cancel_requested", cancel_id="cancel_1", reason="user", by="ann", note="", pending=[])
    forced = frame(2, "run.stop_forced", by="olga", note="The host is lost.", stop_deadline_at="later")
    log = [asked, forced, frame(3, "run.cancelled", reason="user", effects=[])]
    assert fold_all(log[:1])["cancel"]["forced"] is None
    view = fold_all(log)
    assert view["cancel"]["by"] == "ann"
    assert view["cancel"]["forced"] == {"by": "olga", "note": "The host is lost.", "at": forced["ts"]}
    assert node.fold_all(log) == view
    assert fold_all([{**forced, "seq": 1}])["cancel"] is None


DOUBT = {"operation_id": "op_1", "outcome": "unknown"}


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        ("confirmed", {"operation_id": "op_1", "outcome": "committed", "proof": "look_up"}),
        ("refuted", {"operation_id": "op_1", "outcome": "not_started", "proof": "look_up"}),
        ("nonsense", DOUBT),
    ],
)
def test_what_a_stop_left_in_doubt_is_told_and_then_what_became_of_it(node: Node, outcome: str, told: Any) -> None:
    other = {"operation_id": "op_2", "outcome": "committed"}
    log = [
        frame(1, "run.cancel_requested", cancel_id="cancel_1", reason="user", by="ann", note="", pending=["op_1"]),
        frame(2, "run.needs_reconciliation", operations=[{"operation_id": "op_1"}], effects=[DOUBT, other, 7]),
        frame(3, "operation.settled", operation_id="op_1", outcome=outcome, source="look_up"),
        frame(4, "run.reconciled", status="cancelled"),
    ]
    assert fold_all(log[:2])["cancel"]["effects"] == [DOUBT, other, 7]
    view = fold_all(log)
    assert view["cancel"]["effects"] == [told, other, 7]
    assert node.fold_all(log) == view


def test_what_is_known_of_a_model_call_stays_when_a_supervisor_ends_it() -> None:
    log = [
        frame(1, "step.started", "s", path="1", kind="model", name="model"),
        frame(2, "model.started", "s", provider="local", model="small"),
        frame(3, "model.finished", "s", provider_side="unknown", stop_reason="superseded"),
    ]
    model = fold_all(log)["steps"][0]["model"]
    assert (model["provider"], model["provider_side"], model["usage"]) == ("local", "unknown", None)


def test_a_frame_of_another_stream_changes_nothing() -> None:
    view = fold(None, frame(1, "run.created", agent="chat", title="T"))
    assert fold(view, {**frame(2, "run.started"), "stream_id": "st_2"}) is view
