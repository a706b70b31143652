"""What is dropped and cut when a conversation is longer than the context."""

from tools.models.fitting import MARK, cut_middle, fit

SYSTEM = {"role": "system", "content": "s " * 10}


def said(role: str, words: int, mark: str = "w") -> dict[str, str]:
    return {"role": role, "content": f"{mark} " * words}


async def words(text: str) -> int:
    return len(text.split())


async def counts_nothing(text: str) -> int:
    raise AssertionError("a short chat must not be counted")


async def test_what_fits_is_unchanged_and_not_even_counted() -> None:
    chat = [SYSTEM, said("user", 3)]
    assert await fit(chat, budget_tokens=100, count=counts_nothing) == chat


async def test_oldest_messages_go_first_and_the_system_message_stays() -> None:
    chat = [SYSTEM, said("user", 50, "a"), said("assistant", 50, "b"), said("user", 50, "c")]
    assert await fit(chat, budget_tokens=140, count=words) == [chat[0], chat[2], chat[3]]


async def test_tool_result_goes_with_its_call() -> None:
    result = {"role": "user", "content": "Result of now:\n" + "r " * 20}
    chat = [said("user", 60), said("assistant", 60), result, said("user", 30, "c")]
    assert await fit(chat, budget_tokens=70, count=words) == [chat[3]]


async def test_message_that_is_too_long_alone_is_cut_in_its_middle() -> None:
    long = {"role": "user", "content": "START " + "w " * 5000 + "END"}
    system, cut = await fit([SYSTEM, long], budget_tokens=200, count=words)
    assert system == SYSTEM
    assert cut["content"].startswith("START ")
    assert cut["content"].endswith(" END")
    assert cut["content"].count(MARK) == 1
    assert await words(cut["content"]) <= 200 - 18 - 8


async def test_hopeless_budget_ends_with_the_least_there_can_be() -> None:
    (kept,) = await fit([said("user", 1000)], budget_tokens=1, count=words)
    assert len(kept["content"]) < 100


def test_cut_of_a_cut_keeps_one_mark() -> None:
    once = cut_middle("a" * 500 + "b" * 500, share=0.5)
    twice = cut_middle(once, share=0.5)
    assert twice.count(MARK) == 1
    assert len(twice) < len(once) < 1000
    assert (twice[0], twice[-1]) == ("a", "b")
