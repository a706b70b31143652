from runs.documents.words import content_words, count_words, numbers, sentences, stem


def test_forms_of_a_word_share_their_stem() -> None:
    assert stem("policy") == stem("policies")
    for forms in (
        ("close", "closes", "closed", "closing"),
        ("invoice", "invoices", "invoiced"),
        ("policy", "policies"),
    ):
        assert len({stem(form) for form in forms}) == 1, forms


def test_short_words_and_numbers_are_left_alone() -> None:
    assert [stem(word) for word in ("bus", "is", "404", "1,000")] == ["bus", "is", "404", "1,000"]


def test_content_words_drop_what_says_nothing() -> None:
    assert content_words("What happened in the March outage?") == [stem("happened"), "march", stem("outage")]


def test_chinese_is_cut_into_pairs() -> None:
    assert content_words("值班电话") == ["值班", "班电", "电话"]


def test_numbers_are_equal_with_and_without_commas() -> None:
    assert numbers("It cost 186,400 euros in 2026.") == {"186400", "2026"}
    assert numbers("186400") <= numbers("186,400 euros")


def test_sentences_are_exact_pieces_and_abbreviations_do_not_end_them() -> None:
    text = "Costs rose, e.g. for hotels. Nobody paid twice! 值班电话是 4400。谁来接？"
    found = sentences(text)
    assert found[0] == "Costs rose, e.g. for hotels."
    assert len(found) == 4
    assert all(piece in text for piece in found)


def test_words_are_counted_in_both_scripts() -> None:
    assert count_words("three short words") == 3
    assert count_words("值班电话") == 2
