from runs.agents.citations import Source, check_claims, quote

OUTAGE = Source(
    "doc_1",
    "outage.md",
    2,
    "What it cost",
    "The outage cost 186,400 euros in total. Lost ticket sales were 141,000 euros, measured against the four "
    "Saturdays before.\n\nThe insurance paid 50,000 euros of this in May.",
)
CAUSE = Source(
    "doc_1", "outage.md", 0, "Summary", "The cause was an expired certificate. Ines Okafor found it at noon."
)
TRAVEL = Source("doc_2", "travel.pdf", 0, "page 1", "Hotels are paid up to 135 euros for each night.")
ALL = [TRAVEL, CAUSE, OUTAGE]


def test_a_sentence_gets_the_passage_that_holds_its_words() -> None:
    checked = check_claims("The outage cost 186,400 euros in total.", ALL)
    assert [claim.sources for claim in checked.claims] == [(OUTAGE,)]
    assert checked.dropped == ()


def test_citations_that_the_model_invents_are_taken_away() -> None:
    text = "The outage cost 186,400 euros in total [7]. Hotels are paid up to 135 euros (source: wiki page 9) 【3†】."
    checked = check_claims(text, ALL)
    assert [claim.text for claim in checked.claims] == [
        "The outage cost 186,400 euros in total.",
        "Hotels are paid up to 135 euros.",
    ]
    assert [claim.sources for claim in checked.claims] == [(OUTAGE,), (TRAVEL,)]


def test_an_invented_number_is_dropped() -> None:
    checked = check_claims("The outage cost 186,500 euros in total. The outage cost 186400 euros.", ALL)
    assert checked.dropped == ("The outage cost 186,500 euros in total.",)
    assert len(checked.claims) == 1


def test_a_true_number_in_a_wrong_place_is_dropped() -> None:
    """What the local model really wrote about the sample report: each number is there, but not for this."""
    text = (
        "Lost ticket sales were 50,000 euros. The insurance paid 186,400 euros in May. "
        "The outage cost 141,000 euros in total, with lost ticket sales being 186,400 euros."
    )
    assert check_claims(text, ALL).claims == ()
    right = "The outage cost 186,400 euros in total, with lost ticket sales being 141,000 euros."
    assert check_claims(right, ALL).claims[0].sources == (OUTAGE,)


def test_words_gathered_from_all_over_a_passage_are_no_support() -> None:
    scattered = Source(
        "d", "n", 0, "", " ".join(f"The {word} is here." for word in "crane quay storm harbour gate".split())
    )
    assert check_claims("The crane at the quay and the storm at the harbour gate.", [scattered]).claims == ()


def test_an_invented_name_is_dropped() -> None:
    checked = check_claims("The expired certificate was found by Peter Miller.", ALL)
    assert checked.claims == ()


def test_a_sentence_without_a_source_is_dropped() -> None:
    checked = check_claims("The company will soon launch a new product for its customers.", ALL)
    assert checked.claims == ()
    assert len(checked.dropped) == 1


def test_a_sentence_over_two_passages_cites_both() -> None:
    checked = check_claims("The outage, caused by an expired certificate, cost 186,400 euros in total.", ALL)
    assert {source.key for source in checked.claims[0].sources} == {OUTAGE.key, CAUSE.key}


def test_the_question_and_repeats_are_left_out_silently() -> None:
    text = "What did the outage cost in total? The outage cost 186,400 euros in total. The outage cost 186,400 euros."
    checked = check_claims(text, ALL, question="What did the outage cost in total?")
    assert [claim.text for claim in checked.claims] == ["The outage cost 186,400 euros in total."]
    assert checked.dropped == ()


def test_a_sentence_cut_by_the_token_limit_is_not_cited() -> None:
    text = "The insurance paid 50,000 euros in May. Lost ticket sales were 141,000"
    assert len(check_claims(text, ALL, is_cut=True).claims) == 1
    assert len(check_claims(text, ALL).claims) == 2


def test_marks_of_lists_and_headings_are_not_part_of_a_claim() -> None:
    checked = check_claims("- **Lost ticket sales** were 141,000 euros.\n\n2. The insurance paid 50,000 euros.", ALL)
    assert [claim.text for claim in checked.claims] == [
        "Lost ticket sales were 141,000 euros.",
        "The insurance paid 50,000 euros.",
    ]


def test_chinese_sentences_are_checked_too() -> None:
    source = Source("doc_3", "值班手册.md", 1, "补贴", "每个夜班补贴三百元，节假日加倍。")
    assert check_claims("夜班补贴三百元。", [source]).claims[0].sources == (source,)
    assert check_claims("值班电话由外部公司接听。", [source]).claims == ()


def test_a_quotation_is_word_for_word() -> None:
    assert quote(OUTAGE, "What did the insurance pay?") == "The insurance paid 50,000 euros of this in May."
    long = Source("d", "n", 0, "", "word " * 500)
    assert quote(long, "word") in long.text
    assert len(quote(long, "word")) <= 320


def test_nothing_in_nothing_out() -> None:
    for text in ("", "   ", "[1]", "...", "\x00"):
        assert check_claims(text, ALL).claims == ()
    assert check_claims("The outage cost 186,400 euros.", []).claims == ()
