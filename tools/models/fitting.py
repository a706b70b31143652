"""Make a conversation fit into the context of a model: what is dropped, what is cut, in which order.

1. It fits: nothing changes.
2. The oldest non-system messages go, one by one, until it fits or only the newest one is left. A tool result
   whose call went goes with it, because without its question it only confuses.
3. Still too long: the longest message that is left is cut in its middle, with MARK at the cut, until it fits.
"""

from collections.abc import Awaitable, Callable, Sequence

MARK = "\n[... cut to fit the model's context ...]\n"
MESSAGE_OVERHEAD_TOKENS = 8  # role and separators of the chat template
MINIMUM_CHARACTERS = 16
type Chat = list[dict[str, str]]
type Count = Callable[[str], Awaitable[int]]


async def fit(chat: Sequence[dict[str, str]], *, budget_tokens: int, count: Count) -> Chat:
    """Return the chat cut to at most budget_tokens by the rule above.

    Args: count returns the tokens of a text; it is asked once per message, and only when the bytes alone do not
    already show that all of it fits (no token is shorter than a byte).
    """
    upper = sum(len(m["content"].encode()) + MESSAGE_OVERHEAD_TOKENS for m in chat)
    if upper <= budget_tokens:
        return list(chat)
    sized = [(m, await count(m["content"]) + MESSAGE_OVERHEAD_TOKENS) for m in chat]
    total = sum(size for _, size in sized)
    while total > budget_tokens and (oldest := _oldest(sized)) is not None:
        total -= sized.pop(oldest)[1]
        while (orphan := _orphan(sized)) is not None:
            total -= sized.pop(orphan)[1]
    while total > budget_tokens:
        longest = max(range(len(sized)), key=lambda index: sized[index][1])
        message, size = sized[longest]
        shorter = cut_middle(message["content"], share=(size - (total - budget_tokens)) / size)
        if shorter == message["content"]:
            break  # nothing is left to cut; the server will say so
        sized[longest] = ({**message, "content": shorter}, await count(shorter) + MESSAGE_OVERHEAD_TOKENS)
        total += sized[longest][1] - size
    return [message for message, _ in sized]


def cut_middle(text: str, *, share: float) -> str:
    """Return about `share` (0 to 1, a little less to be safe) of the text: its head and its tail with MARK between."""
    head, _, tail = text.partition(MARK)
    bare = len(head) + len(tail)
    keep = max(int(bare * max(share, 0.0) * 0.95) - len(MARK), MINIMUM_CHARACTERS)
    if keep >= bare:
        return text
    if not tail:
        first = keep * 2 // 3
        return text[:first] + MARK + text[len(text) - (keep - first) :]
    first = min(keep * 2 // 3, len(head))
    return head[:first] + MARK + tail[len(tail) - min(keep - first, len(tail)) :]


def _oldest(sized: Sequence[tuple[dict[str, str], int]]) -> int | None:
    movable = [index for index, (m, _) in enumerate(sized) if m["role"] != "system"]
    return movable[0] if len(movable) > 1 else None


def _orphan(sized: Sequence[tuple[dict[str, str], int]]) -> int | None:
    """Return the place of a tool result that now stands first, unless it is all that is left."""
    movable = [index for index, (m, _) in enumerate(sized) if m["role"] != "system"]
    if len(movable) > 1 and sized[movable[0]][0]["content"].startswith("Result of "):
        return movable[0]
    return None
