from hypothesis import given
from hypothesis import strategies as st

from runs.documents.passages import MAX_CHARS, MAX_WORDS, Block, make_passages
from runs.documents.words import count_words

PARAGRAPH = "The ferry left the harbour at nine and came back in the evening with all its passengers. " * 5  # 85 words


def test_passages_end_at_paragraphs() -> None:
    pieces = make_passages(Block(f"{n} {PARAGRAPH}", "page 1") for n in range(6))
    assert [piece.text.count("\n\n") for piece in pieces] == [1, 1, 1]


def test_a_new_place_begins_a_new_passage() -> None:
    pieces = make_passages([Block(PARAGRAPH, "page 1"), Block(PARAGRAPH, "page 2")])
    assert [piece.place for piece in pieces] == ["page 1", "page 2"]


def test_a_piece_too_small_to_stand_alone_is_joined_and_names_both_places() -> None:
    pieces = make_passages([Block("Status: closed.", "Report"), Block(PARAGRAPH, "Summary")])
    assert [piece.place for piece in pieces] == ["Report / Summary"]


def test_plain_text_names_its_lines() -> None:
    blocks = [Block("one", first_line=1, last_line=1), Block("two", first_line=3, last_line=4)]
    assert [piece.place for piece in make_passages(blocks)] == ["lines 1-4"]


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=6000), max_size=4))
def test_no_passage_is_too_large_or_unstorable_whatever_the_text(texts: list[str]) -> None:
    for piece in make_passages(Block(text, "p") for text in texts):
        assert piece.text.strip()
        assert len(piece.text) <= MAX_CHARS + 100
        assert count_words(piece.text) <= MAX_WORDS + 30
        assert "\x00" not in piece.text
        piece.text.encode()


def test_a_long_text_without_any_space_is_cut_and_complete() -> None:
    pieces = make_passages([Block("x" * 10_000)])
    assert "".join(piece.text for piece in pieces).replace(" ", "").replace("\n", "") == "x" * 10_000
