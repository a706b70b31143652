"""Find the passages of one tenant that may answer a question: PostgreSQL's full-text search, then our own order.

A question in plain words rarely has all its words in one passage, so the words are joined by OR, in two
configurations: "english" for its stems, "simple" for names and other languages. Chinese, which PostgreSQL does not
cut into words, is indexed and asked for as pairs of letters.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.postgres.search import SearchQuery, SearchRank, SearchVector
from django.db.models import F, Value
from django.db.models.expressions import CombinedExpression

from runs.documents.ranking import Candidate, rank
from runs.documents.words import CJK_STOP_PAIRS, STOP_WORDS, cjk_pairs, is_cjk, tokens
from runs.models import Passage

MAX_CANDIDATES = 200
MAX_TERMS = 40
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that fits, with its score (comparable only inside one search)."""

    passage: Passage
    score: float


def search_vector(*, name: str, place: str, text: str) -> CombinedExpression:
    """Return the expression that `Passage.search` is filled with: words, stems and pairs; the label weighs more."""
    label = f"{' '.join(_WORD.findall(name.replace('_', ' ')))} {place}"
    return (
        SearchVector(Value(label), config="english", weight="A")
        + SearchVector(Value(label), config="simple", weight="A")
        + SearchVector(Value(text), config="english", weight="B")
        + SearchVector(Value(text), config="simple", weight="B")
        + SearchVector(Value(" ".join(cjk_pairs(f"{label} {text}"))), config="simple", weight="B")
    )


def find_passages(
    *, tenant_id: UUID, question: str, document_ids: Sequence[UUID] | None = None, limit: int = 8
) -> list[Hit]:
    """Return at most `limit` passages of the tenant, best first; none when no word of the question is found.

    document_ids: only in these; None = in all. Ids of other tenants find nothing.
    """
    query = _any_word(question)
    if query is None:
        return []
    passages = Passage.objects.filter(document__tenant_id=tenant_id, search=query)
    if document_ids is not None:
        passages = passages.filter(document_id__in=document_ids)
    found = list(
        passages.select_related("document")
        .defer("search")
        .annotate(db_rank=SearchRank(F("search"), query))
        .order_by("-db_rank", "document__name", "document_id", "ordinal")[:MAX_CANDIDATES]
    )
    candidates = [Candidate(f"{passage.document.name} {passage.place}", passage.text) for passage in found]
    return [Hit(found[index], score) for index, score in rank(question, candidates)[:limit]]


def _any_word(question: str) -> Any:
    terms = [t for t in tokens(question) if t not in STOP_WORDS and t not in CJK_STOP_PAIRS]
    terms = [t for t in dict.fromkeys(terms) if _WORD.fullmatch(t)][:MAX_TERMS]
    if not terms:
        return None
    query: Any = SearchQuery(" | ".join(f"'{t}'" for t in terms), search_type="raw", config="simple")
    if words := [t for t in terms if not is_cjk(t)]:
        query |= SearchQuery(" | ".join(f"'{t}'" for t in words), search_type="raw", config="english")
    return query
