"""The bounds on what all readers of a process hold: who gives up first."""

from streaming.budget import COPIES, LEAST_PAGE_BYTES, MOST_PAGE_BYTES, TRANSPORT_BYTES, RingBudget, Sending


def test_the_coldest_gives_up_first_and_the_newest_never() -> None:
    given_up: list[str] = []
    budget = RingBudget(100)

    def hold(name: str, size_bytes: int) -> None:
        budget.hold(name, size_bytes, lambda: given_up.append(name))

    hold("a", 40)
    hold("b", 40)
    hold("a", 50)  # speaks again: now b is the coldest
    hold("c", 30)
    assert (given_up, budget.held_bytes) == (["b"], 80)
    hold("d", 1000)
    assert (given_up, budget.held_bytes) == (["b", "a", "c"], 1000)
    budget.drop("d")
    budget.drop("d")
    assert budget.held_bytes == 0


def test_pages_shrink_with_the_number_of_readers_that_wait() -> None:
    sending: Sending[int] = Sending(max_bytes=12 * COPIES * LEAST_PAGE_BYTES)
    sizes = []
    for reader in range(20):
        sizes.append(sending.page_bytes)
        sending.begin(reader, 1)
    assert sizes[0] == 6 * LEAST_PAGE_BYTES
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == LEAST_PAGE_BYTES
    assert Sending[int]().page_bytes == MOST_PAGE_BYTES


def test_those_who_wait_longest_are_sent_away_until_the_rest_fits() -> None:
    each = TRANSPORT_BYTES + COPIES * 1000
    sending: Sending[str] = Sending(max_bytes=2 * each)
    for reader in "abc":
        sending.begin(reader, 1000)
    sending.end("a")
    assert sending.too_many() == []
    sending.begin("a", 1000)  # waits anew: the newest now
    sending.begin("d", 1000)
    assert sending.too_many() == ["b", "c"]
    sending.end("b")
    sending.end("c")
    sending.end("nobody")
    assert len(sending) == 2
    assert sending.too_many() == []
