"""Answer a question from uploaded documents, with citations that code has made and checked.

search --> for each document: read, summarise (side by side) --> answer --> report.md
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from runs.agents import AgentStepError, Message, ModelFailed, RunContext, ToolFailed, agent
from runs.agents.builtin.report import Citations, Missing, Section, write_empty_report, write_report
from runs.agents.citations import Checked, Claim, Source, check_claims
from runs.documents.ranking import Candidate, rank
from runs.documents.tools import read_document, search_documents

MAX_HITS = 16
MAX_DOCUMENTS = 8
MAX_PASSAGES = 3  # of one document; about 900 tokens, which the local model can take
SIDE_BY_SIDE = 4  # the local model server answers so many at once
WEAK_DOCUMENT = 0.35  # a document whose best passage has less than this share of the best score is left out
WEAK_PASSAGE = 0.2  # and so is a passage of a document that is used
SUMMARY_TOKENS = 200
ANSWER_TOKENS = 300
MAX_CLAIMS = 6
SYSTEM = (
    "You write for a busy reader. Use only what the given text says, with its own words, names and numbers. "
    "Write plain sentences without headings, lists or citations, in the language of the question."
)

Question = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]
DocumentIds = Annotated[list[Annotated[str, Field(max_length=100)]], Field(min_length=1, max_length=50)]


class ResearchRequest(BaseModel):
    """What to find out, and where."""

    model_config = ConfigDict(extra="forbid")
    question: Question = Field(description="What do you want to find out?")
    documents: Literal["all"] | DocumentIds = Field(
        default="all", description='"all", or the ids of the documents to search.'
    )


class CitedSource(BaseModel):
    """A source of the report, as in its list."""

    number: int
    document_id: str
    document: str
    place: str
    quotes: list[str]


class ResearchReport(BaseModel):
    """What a run of the researcher returns; the whole text is the artifact."""

    answer: str
    sources: list[CitedSource]
    unreadable: list[str]
    dropped_sentences: int
    artifact_id: str


@dataclass(frozen=True, slots=True)
class Dossier:
    """One document with the passages that the search found in it, best first."""

    document_id: str
    name: str
    hits: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Study:
    """What the model made of one document."""

    dossier: Dossier
    given: tuple[Source, ...]
    checked: Checked


@agent("researcher", description="Searches your documents, summarises each, and writes a report with citations.")
async def researcher(ctx: RunContext, request: ResearchRequest) -> ResearchReport:
    """Write report.md and return its answer and sources. A document that cannot be used is named in the report."""
    await ctx.set_title(f"Research: {' '.join(request.question.split())[:120]}")
    wanted = None if request.documents == "all" else request.documents
    found = cast(
        dict[str, Any],
        await ctx.tool(search_documents, query=request.question, documents=wanted, limit=MAX_HITS),
    )
    dossiers = _group(found["passages"])
    used = {dossier.document_id for dossier in dossiers}
    silent = [d["name"] for d in found["searched"] if d["document_id"] not in used] if wanted else []
    missing = Missing([(d["name"], d["error"]) for d in found["unreadable"]], found["missing"], silent)
    if not dossiers:
        text = write_empty_report(question=request.question, missing=missing, searched=found["searched_count"])
        return await _deliver(ctx, text, Citations(), answer="", missing=missing, dropped=0)

    results = await ctx.gather(
        *(_study(ctx, request.question, dossier) for dossier in dossiers), limit=SIDE_BY_SIDE, return_errors=True
    )
    studies = [result for result in results if isinstance(result, Study)]
    _raise_if_hopeless(results, any_worked=bool(studies))
    given = [source for study in studies for source in study.given]
    answer = await _answer(ctx, request.question, studies, given)
    dropped = sum(len(study.checked.dropped) for study in studies) + len(answer.dropped)
    text, citations = write_report(
        question=request.question,
        answer=answer.claims,
        nearest=_nearest(request.question, given or [dossier.hits[0] for dossier in dossiers]),
        sections=[_section(dossier, result) for dossier, result in zip(dossiers, results, strict=True)],
        missing=missing,
        searched=found["searched_count"],
        dropped=dropped,
    )
    said = " ".join(claim.text for claim in answer.claims)
    return await _deliver(ctx, text, citations, answer=said, missing=missing, dropped=dropped)


async def _study(ctx: RunContext, question: str, dossier: Dossier) -> Study:
    """Read around the best passage and let the model summarise what was read."""
    first = max(0, dossier.hits[0].ordinal - 1)
    try:
        book = cast(
            dict[str, Any],
            await ctx.tool(read_document, document=dossier.document_id, first=first, count=MAX_PASSAGES),
        )
        around = [_source(item) for item in book["passages"]]
    except ToolFailed:  # deleted meanwhile; what the search returned can still be quoted
        around = []
    chosen = {source.key: source for source in [*dossier.hits, *around][: len(dossier.hits) + MAX_PASSAGES]}
    given = tuple(sorted(list(chosen.values())[:MAX_PASSAGES], key=lambda source: source.ordinal))
    text = "\n\n".join(f"{source.place}\n{source.text}".strip() for source in given)
    prompt = (
        f"Text of the file {dossier.name}:\n\n{text}\n\n"
        f"Question: {question}\n\nSummarise in two to four sentences what this text says about the question."
    )
    reply = await ctx.model(
        [Message("system", SYSTEM), Message("user", prompt)], label=dossier.name, max_tokens=SUMMARY_TOKENS
    )
    checked = check_claims(reply.text, given, question=question, is_cut=reply.stop_reason == "length")
    return Study(dossier, given, Checked(checked.claims[:MAX_CLAIMS], checked.dropped))


async def _answer(ctx: RunContext, question: str, studies: Sequence[Study], given: Sequence[Source]) -> Checked:
    """Let the model answer from the checked notes, and check it against the passages again."""
    notes = [claim.text for study in studies for claim in study.checked.claims]
    notes = notes or [source.text for source in _nearest(question, given)]
    listed = "\n".join(f"- {note}" for note in notes[:12])
    prompt = f"Notes:\n{listed}\n\nQuestion: {question}\n\nAnswer the question in two to four sentences from the notes."
    reply = await ctx.model(
        [Message("system", SYSTEM), Message("user", prompt)], label="Answer", max_tokens=ANSWER_TOKENS
    )
    checked = check_claims(reply.text, given, question=question, is_cut=reply.stop_reason == "length")
    return Checked(checked.claims[:MAX_CLAIMS], checked.dropped)


async def _deliver(
    ctx: RunContext, text: str, citations: Citations, *, answer: str, missing: Missing, dropped: int
) -> ResearchReport:
    artifact_id = await ctx.artifact("report.md", text, content_type="text/markdown")
    await ctx.say(text, label="Report")
    return ResearchReport(
        answer=answer,
        sources=[
            CitedSource(
                number=number,
                document_id=source.document_id,
                document=source.document,
                place=source.place,
                quotes=citations.quotes[source.key],
            )
            for number, source in enumerate(citations.sources, start=1)
        ],
        unreadable=[name for name, _ in missing.unreadable],
        dropped_sentences=dropped,
        artifact_id=artifact_id,
    )


def _group(passages: Sequence[dict[str, Any]]) -> list[Dossier]:
    """Return the documents by their best passage (passages come best first); what is far weaker is left out."""
    best = max((item["score"] for item in passages), default=0)
    by_document: dict[str, list[Source]] = {}
    for item in passages:
        share = WEAK_PASSAGE if item["document_id"] in by_document else WEAK_DOCUMENT
        if item["score"] >= share * best:
            by_document.setdefault(item["document_id"], []).append(_source(item))
    chosen = list(by_document.items())[:MAX_DOCUMENTS]
    return [Dossier(key, sources[0].document, tuple(sources[:MAX_PASSAGES])) for key, sources in chosen]


def _source(item: dict[str, Any]) -> Source:
    return Source(item["document_id"], item["document"], item["ordinal"], item["place"], item["text"])


def _section(dossier: Dossier, result: Study | AgentStepError) -> Section:
    if isinstance(result, Study):
        claims: tuple[Claim, ...] = result.checked.claims
        note = "" if claims else "The model wrote nothing about this file that its passages support."
    else:
        claims, note = (), f"The model could not summarise this file ({re.sub(r'[^a-z_ ]', '', str(result.code))})."
    return Section(dossier.name, claims, dossier.hits[0], note)


def _nearest(question: str, sources: Sequence[Source]) -> list[Source]:
    candidates = [Candidate(f"{source.document} {source.place}", source.text) for source in sources]
    found = rank(question, candidates)[:3]
    return [sources[index] for index, score in found if score >= WEAK_DOCUMENT * found[0][1]] or list(sources[:1])


def _raise_if_hopeless(results: Sequence[Study | AgentStepError], *, any_worked: bool) -> None:
    """Let the run fail where going on would only hide it: a wrong key, or a model that answers nobody."""
    for result in results:
        if isinstance(result, AgentStepError) and (
            not any_worked or not isinstance(result, ModelFailed) or result.code == "auth"
        ):
            raise result
