import re
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from runs.agents import registry
from runs.agents.context import RunContext
from runs.agents.inputs import AgentInputInvalid
from runs.agents.registry import AgentModuleFailed, AgentResultInvalid, AgentSpec, agent, all_agents, get_agent
from runs.conf import limits
from runs.errors import InvalidInput, TooLarge, UnknownAgent


class Inner(BaseModel):
    weight: float = 1.0


class Order(BaseModel):
    customer: str
    cents: int
    inner: Inner = Inner()
    tags: list[str] = []


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    all_agents()
    monkeypatch.setattr(registry, "_agents", dict(registry._agents))


@pytest.fixture
def order() -> AgentSpec:
    @agent("order", deadline_seconds=60)
    async def take_order(ctx: RunContext, request: Order) -> dict[str, int]:
        """Take an order.

        The rest is for readers of the code.
        """
        return {"cents": request.cents}

    return get_agent("order")


def test_the_built_in_agents_are_there_with_their_policies() -> None:
    built_in = [spec for spec in all_agents() if spec.fn.__module__.startswith("runs.agents.builtin.")]
    assert {spec.name: spec.on_disconnect for spec in built_in} == {
        "assistant": "continue",
        "billing": "continue",
        "chat": "cancel",
        "probe": "continue",
        "probe_cancel": "cancel",
        "researcher": "continue",
        "shell": {"grace_s": 900.0},
    }
    assert {spec.name for spec in built_in if not spec.is_listed} == {"probe", "probe_cancel", "shell"}


def test_an_unknown_agent_is_refused_with_the_listed_names() -> None:
    with pytest.raises(UnknownAgent) as caught:
        get_agent("reseacher")
    assert caught.value.field == "agent"
    assert "researcher" in caught.value.message
    assert "probe" not in caught.value.message


def test_the_description_is_the_first_paragraph(order: AgentSpec) -> None:
    assert order.description == "Take an order."


def test_input_is_stored_with_its_defaults_and_checking_it_again_changes_nothing(order: AgentSpec) -> None:
    stored = order.normal_input({"customer": "ACME", "cents": 5})
    assert stored == {"customer": "ACME", "cents": 5, "inner": {"weight": 1.0}, "tags": []}
    assert order.normal_input(stored) == stored


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cents": True}, "input.cents"),
        ({"cents": "5"}, "input.cents"),
        ({"cents": 5.5}, "input.cents"),
        ({"cents": float("nan")}, "input.cents"),
        ({"cents": 2**63}, "input.cents"),
        ({"cents": 10**5000}, "input.cents"),
        ({"cents": None}, "input.cents"),
        ({"customer": 7}, "input.customer"),
        ({"customer": "a\x00b"}, "input.customer"),
        ({"customer": "a\ud800b"}, "input.customer"),
        ({"tags": ["fine", "\udfff"]}, "input.tags.1"),
        ({"inner": {"weight": float("inf")}}, "input.inner.weight"),
        ({"inner": {"weight": 1, "height": 2}}, "input.inner.height"),
        ({"colour": "red"}, "input.colour"),
        ({"a\ud800": 1}, "input"),
        ({"customer": object()}, "input.customer"),
    ],
)
def test_bad_input_is_refused_and_names_the_field(order: AgentSpec, change: dict[str, Any], field: str) -> None:
    with pytest.raises(AgentInputInvalid) as caught:
        order.parse_input({"customer": "ACME", "cents": 5, **change})
    assert caught.value.field == field
    assert caught.value.message
    assert caught.value.details["fields"][0]["field"] == field


@pytest.mark.parametrize("raw", [None, [], "text", 5, True])
def test_input_that_is_no_object_is_refused(order: AgentSpec, raw: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        order.parse_input(raw)
    assert caught.value.field == "input"


def test_every_missing_field_is_named_at_once(order: AgentSpec) -> None:
    with pytest.raises(AgentInputInvalid) as caught:
        order.parse_input({})
    assert [problem.field for problem in caught.value.problems] == ["input.customer", "input.cents"]


def test_over_long_input_names_the_longest_field(order: AgentSpec) -> None:
    with pytest.raises(TooLarge) as caught:
        order.parse_input({"cents": 5, "customer": "字" * limits().max_input_bytes})
    assert caught.value.field == "input.customer"


def test_input_nested_too_deeply_is_refused(order: AgentSpec) -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInput) as caught:
        order.parse_input({"customer": "ACME", "cents": 5, "tags": deep})
    assert re.match(r"input\.tags(\.0)+$", caught.value.field)


@pytest.mark.parametrize(
    ("name", "field", "bad"),
    [
        ("chat", "prompt", "   "),
        ("chat", "prompt", "x" * 20_001),
        ("researcher", "question", ""),
        ("researcher", "question", "x" * 2_001),
        ("billing", "cents", True),
        ("billing", "cents", 0),
        ("billing", "cents", 10_000_001),
        ("billing", "currency", "eur"),
        ("billing", "currency", "EUR\n"),
        ("assistant", "max_turns", 0),
        ("assistant", "max_turns", 21),
        ("probe", "key", "../../etc/passwd"),
        ("probe", "rate", float("nan")),
    ],
)
def test_built_in_agents_refuse_what_they_cannot_use(name: str, field: str, bad: object) -> None:
    fine: dict[str, dict[str, Any]] = {
        "chat": {"prompt": "hi"},
        "researcher": {"question": "why?"},
        "billing": {"customer": "ACME", "cents": 1},
        "assistant": {"prompt": "hi"},
        "probe": {"key": "k"},
    }
    get_agent(name).parse_input(fine[name])
    with pytest.raises(InvalidInput) as caught:
        get_agent(name).parse_input(fine[name] | {field: bad})
    assert caught.value.field == f"input.{field}"


def test_a_result_is_checked_against_its_annotation(order: AgentSpec) -> None:
    assert order.dump_result({"cents": 5}) == {"cents": 5}
    for bad in ({"cents": True}, "text", None, {"cents": object()}):
        with pytest.raises(AgentResultInvalid):
            order.dump_result(bad)


def test_a_result_is_made_storable() -> None:
    @agent("loose")
    async def loose(ctx: RunContext) -> dict[str, Any]:
        return {}

    assert get_agent("loose").dump_result({"a": "x\x00", "b": float("nan")}) == {"a": "x\ufffd", "b": None}


def test_an_agent_without_input_takes_an_empty_object_only() -> None:
    @agent("tick")
    async def tick(ctx: RunContext) -> None: ...

    assert get_agent("tick").normal_input({}) == {}
    with pytest.raises(InvalidInput):
        get_agent("tick").parse_input({"a": 1})


def test_declarations_that_cannot_work_stop_the_process_at_start() -> None:
    async def fine(ctx: RunContext, request: Order) -> str:
        return ""

    async def untyped(ctx: RunContext, request) -> str:  # type: ignore[no-untyped-def]
        return ""

    async def no_result(ctx: RunContext, request: Order):  # type: ignore[no-untyped-def]
        return ""

    async def no_json(ctx: RunContext, request: Order) -> Path | AgentSpec:
        raise AssertionError

    def blocking(ctx: RunContext, request: Order) -> str:
        return ""

    wrong_functions: list[Any] = [untyped, no_result, no_json, blocking]
    for fn in wrong_functions:
        with pytest.raises(TypeError):
            agent("bad")(fn)
    wrong_words: list[dict[str, Any]] = [
        {"name": "Bad Name"},
        {"name": "bad", "on_disconnect": "stay"},
        {"name": "bad", "on_disconnect": {"grace_s": True}},
        {"name": "bad", "on_disconnect": {"grace_s": 0}},
        {"name": "bad", "on_disconnect": {"grace_s": 5, "more": 1}},
        {"name": "bad", "deadline_seconds": float("nan")},
        {"name": "bad", "deadline_seconds": 0},
        {"name": "chat"},
    ]
    for wrong in wrong_words:
        with pytest.raises(ValueError, match=r"bad|Bad|chat"):
            agent(**wrong)(fine)
    agent("good", on_disconnect={"grace_s": 30})(fine)


def test_modules_of_the_environment_are_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(
        "from runs.agents import RunContext, agent\n"
        "@agent('mine')\nasync def mine(ctx: RunContext) -> str:\n    return 'hello'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("OUTLIVE_AGENTS", " my_agents ,")
    registry._loaded.clear()
    assert get_agent("mine").is_listed
    sys.modules.pop("my_agents")


def test_a_module_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torn.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._loaded.clear()
    for name in ("torn", "no.such.module"):
        monkeypatch.setenv("OUTLIVE_AGENTS", name)
        with pytest.raises(AgentModuleFailed, match=name):
            get_agent("chat")
    monkeypatch.delenv("OUTLIVE_AGENTS")
    assert get_agent("chat").name == "chat"
