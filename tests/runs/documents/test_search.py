from runs.access import Actor
from runs.documents.search import Hit, find_passages
from runs.documents.services import upload_document


def search(actor: Actor, question: str, **more: object) -> list[Hit]:
    return find_passages(tenant_id=actor.tenant.pk, question=question, **more)  # type: ignore[arg-type]


QUESTIONS = [
    ("What happened in the March outage and what did it cost?", "incident-2026-03-14-outage.md", None),
    ("How much did the outage cost in total?", "incident-2026-03-14-outage.md", "186,400"),
    ("Why were invoices sent twice in November?", "incident-2025-11-02-double-invoices.md", "new request numbers"),
    ("May I close my laptop while my run is going?", "laptop-policy.txt", "You may close your laptop"),
    ("What does the Stop button promise?", "stop-button-handbook.html", "nothing new begins"),
    ("Who approves an invoice above 10,000 euros?", "billing-rules.docx", "Marta Lindqvist"),
    ("How much is paid for a hotel per night in Paris?", "travel-expenses.pdf", "190 euros"),
    ("夜班补贴是多少？", "值班手册.md", "三百元"),
]


def test_the_best_passage_is_the_right_one(library: Actor) -> None:
    for question, name, words in QUESTIONS:
        hits = search(library, question)
        assert hits, question
        assert hits[0].passage.document.name == name, question
        if words:
            assert words in hits[0].passage.text, question


def test_both_halves_of_a_question_are_among_the_first_passages(library: Actor) -> None:
    hits = search(library, "What happened in the March outage and what did it cost?")[:4]
    text = "\n".join(hit.passage.text for hit in hits)
    assert "expired certificate" in text
    assert "186,400 euros" in text


def test_a_foreign_tenant_finds_nothing_even_with_the_ids(library: Actor, outsider: Actor) -> None:
    ids = [hit.passage.document_id for hit in search(library, "outage")]
    assert ids
    assert search(outsider, "outage") == []
    assert search(outsider, "outage", document_ids=ids) == []


def test_a_search_can_be_limited_to_documents(library: Actor) -> None:
    travel = search(library, "hotel night")[0].passage.document
    hits = search(library, "euros", document_ids=[travel.pk])
    assert {hit.passage.document_id for hit in hits} == {travel.pk}
    assert search(library, "euros", document_ids=[]) == []


NOTHING = ["", "what is it", "?!*", "zygomorphic", "' | & ! :* <->", "a:b'c", "\\", "💥", "'); DELETE; --", "什么"]


def test_questions_without_a_known_word_find_nothing(library: Actor) -> None:
    assert {question: search(library, question) for question in NOTHING} == {question: [] for question in NOTHING}


def test_a_file_name_can_be_found(owner: Actor) -> None:
    upload_document(actor=owner, name="zebra_catalogue.txt", content_type="text/plain", data=b"stripes and more")
    assert search(owner, "Where is the zebra list?")[0].passage.document.name == "zebra_catalogue.txt"
