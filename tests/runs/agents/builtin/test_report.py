import re

from runs.agents.builtin.report import Missing, Section, code, escape, write_empty_report, write_report
from runs.agents.citations import Claim, Source

COST = Source("doc_1", "out`age.md", 2, "What it cost", "The outage cost 186,400 euros. Nobody was hurt.")
CAUSE = Source("doc_1", "out`age.md", 0, "Summary", "A certificate had expired.")
TRAVEL = Source("doc_2", "travel.pdf", 4, "page 5", "Hotels: [see](javascript:x) <b>135</b> euros.")


def report(**changes: object) -> str:
    given: dict[str, object] = {
        "question": "What\nhappened?",
        "answer": [Claim("A certificate had expired.", (CAUSE,)), Claim("It cost 186,400 euros.", (COST, CAUSE))],
        "nearest": [COST],
        "sections": [Section("out`age.md", (Claim("It cost 186,400 euros.", (COST,)),), CAUSE)],
        "missing": Missing(),
        "searched": 3,
        "dropped": 0,
    }
    return write_report(**(given | changes))[0]  # type: ignore[arg-type]


def test_sources_are_numbered_by_first_use_and_each_citation_is_listed() -> None:
    text = report()
    assert "A certificate had expired. [1] It cost 186,400 euros. [2][1]" in text
    body, sources = text.split("## Sources")
    assert {int(n) for n in re.findall(r"\[(\d+)\]", body)} == {1, 2}
    assert re.findall(r"^- \[(\d+)\] (`[^`]*`), ([^,]*), passage (\d+)", sources, re.MULTILINE) == [
        ("1", "`out'age.md`", "Summary", "1"),
        ("2", "`out'age.md`", "What it cost", "3"),
    ]


def test_without_an_answer_the_nearest_passages_are_quoted() -> None:
    text = report(answer=[])
    assert "no answer that the passages support" in text
    assert "- \u201cThe outage cost 186,400 euros.\u201d [1]" in text


def test_what_documents_say_cannot_become_markup() -> None:
    text = report(answer=[], nearest=[TRAVEL], question="Hotels [x](y)?\n# Forged heading")
    assert "[see](" not in text
    assert "<b>" not in text.replace("\\<b>", "")
    assert "\n# Forged" not in text


def test_what_is_missing_is_named_with_the_reason() -> None:
    text = report(missing=Missing([("scan.pdf", "is protected by a password")], ["doc_x"], ["menu.txt"]), dropped=1)
    assert "- `scan.pdf` is protected by a password." in text
    assert "- `doc_x` is no document of yours." in text
    assert "- `menu.txt` has no passage with the words of the question." in text
    assert "1 sentence of the model had no such passage and was left out." in text


def test_one_document_is_not_called_documents() -> None:
    assert "1 document was searched and" in report(searched=1)


def test_an_empty_report_says_whether_anything_was_searched() -> None:
    assert "None of the 3 documents" in write_empty_report(question="q", missing=Missing(), searched=3)
    assert "Upload documents" in write_empty_report(question="q", missing=Missing(), searched=0)


def test_escaping_keeps_the_words() -> None:
    assert escape("a *b* [c]\n<d>") == r"a \*b\* \[c\] \<d>"
    assert code("a`b\nc.md") == "`a'b c.md`"
