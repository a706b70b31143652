"""Write the researcher's report as Markdown: citations by number, quotations word for word, what is missing. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from runs.agents.citations import Claim, Source, quote

MAX_QUOTES = 2  # of one source in the list


@dataclass(frozen=True, slots=True)
class Section:
    """What one document says. note: why there is no summary, for people."""

    document: str
    claims: tuple[Claim, ...]
    best: Source
    note: str = ""


@dataclass(slots=True)
class Citations:
    """The sources that a report has cited so far, numbered by first use, each with its quotations."""

    sources: list[Source] = field(default_factory=list)
    quotes: dict[tuple[str, int], list[str]] = field(default_factory=dict)

    def cite(self, source: Source, about: str) -> str:
        """Return "[n]" for a source, and keep the sentence of it that is nearest to `about`."""
        if source.key not in self.quotes:
            self.sources.append(source)
            self.quotes[source.key] = []
        held = self.quotes[source.key]
        text = quote(source, about)
        if text not in held and len(held) < MAX_QUOTES:
            held.append(text)
        return f"[{[item.key for item in self.sources].index(source.key) + 1}]"

    def state(self, claim: Claim) -> str:
        """Return a claim with its citations behind it."""
        return f"{escape(claim.text)} {''.join(self.cite(source, claim.text) for source in claim.sources)}"

    def say(self, source: Source, about: str) -> str:
        """Return the quotation nearest to `about` with its citation."""
        return f"\u201c{escape(quote(source, about))}\u201d {self.cite(source, about)}"


@dataclass(frozen=True, slots=True)
class Missing:
    """What the report could not use. unreadable: (name, reason). unknown: ids of no document. silent: names."""

    unreadable: Sequence[tuple[str, str]] = ()
    unknown: Sequence[str] = ()
    silent: Sequence[str] = ()


def write_report(
    *,
    question: str,
    answer: Sequence[Claim],
    nearest: Sequence[Source],
    sections: Sequence[Section],
    missing: Missing,
    searched: int,
    dropped: int,
) -> tuple[str, Citations]:
    """Return the report and its citations. nearest: quoted where the model gave no usable answer."""
    citations = Citations()
    lines = [f"# {escape(_one_line(question))}", "", "## Answer", ""]
    if answer:
        lines += [" ".join(citations.state(claim) for claim in answer), ""]
    else:
        lines += ["The model gave no answer that the passages support. These passages fit the question best:", ""]
        lines += [f"- {citations.say(source, question)}" for source in nearest] + [""]
    lines += ["## What each document says", ""]
    for section in sections:
        lines += [f"### {code(section.document)}", ""]
        if section.claims:
            lines += [" ".join(citations.state(claim) for claim in section.claims), ""]
        if section.note:
            lines += [section.note, ""]
        lines += [f"> {citations.say(section.best, question)}", ""]
    lines += ["## Sources", "", *_list_sources(citations), ""]
    lines += _missing_lines(missing)
    lines += ["## How this report was made", "", _how(searched, len(sections), dropped), ""]
    return "\n".join(lines), citations


def write_empty_report(*, question: str, missing: Missing, searched: int) -> str:
    """Return the short, honest report of a search that found nothing."""
    found = (
        f"None of the {searched} documents that were searched has a passage with the words of this question."
        if searched
        else "There was no document that could be searched. Upload documents, then ask again."
    )
    lines = [f"# {escape(_one_line(question))}", "", "## Answer", "", found, ""]
    return "\n".join(lines + _missing_lines(missing))


def escape(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*\[\]<])", r"\\\1", _one_line(text))


def code(name: str) -> str:
    """Return a file name as Markdown code."""
    return f"`{_one_line(name).replace('`', chr(39))}`"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _list_sources(citations: Citations) -> Iterable[str]:
    for number, source in enumerate(citations.sources, start=1):
        quotes = " ".join(f"\u201c{escape(text)}\u201d" for text in citations.quotes[source.key])
        place = f", {escape(source.place)}" if source.place else ""
        yield f"- [{number}] {code(source.document)}{place}, passage {source.ordinal + 1}: {quotes}"


def _missing_lines(missing: Missing) -> list[str]:
    lines = [f"- {code(name)} {escape(reason)}." for name, reason in missing.unreadable]
    lines += [f"- {code(text)} is no document of yours." for text in missing.unknown]
    lines += [f"- {code(name)} has no passage with the words of the question." for name in missing.silent]
    return ["## Not used", "", *lines, ""] if lines else []


def _how(searched: int, used: int, dropped: int) -> str:
    documents = "1 document was" if searched == 1 else f"{searched} documents were"
    text = (
        f"{documents} searched and {used} had passages that fit. Each sentence above was written by the "
        "model, and its words, names and numbers were found by code in the passage that it cites; quotations are word "
        "for word."
    )
    if dropped:
        sentences = "1 sentence" if dropped == 1 else f"{dropped} sentences"
        text += f" {sentences} of the model had no such passage and {'was' if dropped == 1 else 'were'} left out."
    return text
