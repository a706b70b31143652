from runs.documents.ranking import Candidate, rank


def test_rare_words_count_more_than_common_ones() -> None:
    texts = ["the harbour paid euros euros euros", "the outage of the harbour", "harbour euros", "harbour euros paid"]
    best, _ = rank("What did the harbour outage cost in euros?", [Candidate("", text) for text in texts])[0]
    assert best == 1


def test_a_word_in_the_label_counts() -> None:
    candidates = [Candidate("", "costs were high"), Candidate("march-report.md", "costs were high")]
    assert rank("march costs", candidates)[0][0] == 1


def test_no_words_give_no_order() -> None:
    assert rank("what is it", [Candidate("", "text")]) == []
    assert rank("ferry", [Candidate("", "text")]) == []
