"""The fold law as far as the eye: what the page shows of random logs is what Python folds of them."""

import random
from typing import Any

from runs.fold import fold_all
from tests.browser.test_run_page import address
from tests.runs.pages.scenes import Scene
from tests.runs.test_fold import Fate

LOGS = 200
SHOWN = """async (logs) => {
  const { fold } = await import("/static/streaming/fold.js");
  const { Painter } = await import("/static/runs/painter.js");
  const { readJson } = await import("/static/runs/dom.js");
  const words = readJson("words");
  return logs.map(({ frames, cuts }) => {
    document.querySelectorAll("#steps > *, #cards > *").forEach((e) => e.remove());
    const painter = new Painter(document.getElementById("run"), { words, onPainted() {} });
    let view = null;
    frames.forEach((frame, n) => {
      view = fold(view, frame);
      if (cuts.includes(n)) painter.paint(view);
    });
    painter.paint(view);
    const textOf = (message) => [message.dataset.message, message.querySelector(".words").textContent];
    return [...document.querySelectorAll("#cards > *")].map((card) =>
      [card.dataset.step, [...card.querySelectorAll("[data-message]")].map(textOf)]);
  });
}"""


def with_steps(frames: list[Any]) -> list[Any]:
    """Begin the two steps that the texts of a random log belong to: nothing else of it is on the page."""
    begun = {"v": 1, "type": "step.started", "stream_id": "st_1", "run_id": "run_1", "attempt": 1, "ts": "t"}
    data = {"kind": "model", "name": "local", "path": "1"}
    first = [{**begun, "seq": n, "step_id": step_id, "data": data} for n, step_id in ((1, "a"), (2, "b"))]
    return first + [{**frame, "seq": frame["seq"] + 2} for frame in frames]


def expected(view: dict[str, Any]) -> list[Any]:
    """What a page has to show: each step with its texts; those of a superseded try are not part of the answer."""
    known = {message["message_id"]: message for message in view["messages"]}
    return [
        [step["step_id"], [[m, known[m]["text"]] for m in step["message_ids"] if known[m]["state"] != "superseded"]]
        for step in view["steps"]
    ]


def stands_still(view: dict[str, Any]) -> bool:
    """While a run is stopping, its open texts are not painted on."""
    return view["status"] in ("cancel_requested", "cancelling") and view["terminal_at"] is None


def test_what_is_painted_event_by_event_is_the_fold_of_the_log(owner, visit):
    draw = random.Random(7)
    logs = []
    for seed in range(LOGS):
        frames = with_steps(Fate(seed).writing()) if seed % 2 else Fate(seed).log()
        if frames and not stands_still(fold_all(frames)):
            logs.append({"frames": frames, "cuts": [draw.randrange(len(frames)) for _ in range(4)]})
    page = visit(owner).open(address(Scene(owner).run))
    shown = page.evaluate(SHOWN, logs)
    assert sum(bool(text) for steps in shown for _step, texts in steps for _id, text in texts) > 50
    for log, steps in zip(logs, shown, strict=True):
        assert steps == expected(fold_all(log["frames"]))
