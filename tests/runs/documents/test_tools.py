from typing import Any

import pytest
from asgiref.sync import sync_to_async

from runs.access import Actor
from runs.agents import ToolFailed
from runs.documents.services import upload_document
from runs.documents.tools import read_document, search_documents
from runs.ids import text_id
from runs.models import Document
from tests.runs.agents.scripted_context import ScriptedContext
from tools.effects import Effect

QUESTION = "What happened in the March outage and what did it cost?"


async def use(actor: Actor, tool: Any, **arguments: Any) -> Any:
    """Call the tool for real, as a run of the actor's tenant."""
    return await ScriptedContext(tenant_id=actor.tenant.pk.hex).tool(tool, **arguments)


def upload(actor: Actor, name: str, data: bytes) -> str:
    return text_id("doc", upload_document(actor=actor, name=name, content_type="text/plain", data=data).pk)


aupload = sync_to_async(upload)


def test_both_only_read() -> None:
    assert {search_documents.effect, read_document.effect} == {Effect.READ}


async def test_a_search_names_what_it_could_not_read(library: Actor) -> None:
    broken = Document(
        tenant=library.tenant, uploaded_by=library.user, name="broken.pdf", content_type="application/pdf",
        size_bytes=1, sha256="0" * 64, error="is protected by a password",
    )  # fmt: skip
    await broken.asave()
    found = await use(library, search_documents, query=QUESTION)
    assert found["passages"][0]["document"] == "incident-2026-03-14-outage.md"
    assert found["passages"][0]["score"] >= found["passages"][-1]["score"]
    assert [(d["name"], d["error"]) for d in found["unreadable"]] == [("broken.pdf", "is protected by a password")]
    assert found["searched_count"] == 7


async def test_a_search_in_chosen_documents_names_the_ones_that_are_not_there(owner: Actor, outsider: Actor) -> None:
    mine, theirs = await _two(owner, outsider)
    found = await use(owner, search_documents, query="ferry", documents=[mine, theirs, "doc_nonsense", "", mine])
    assert [p["document_id"] for p in found["passages"]] == [mine]
    assert found["missing"] == [theirs, "doc_nonsense", ""]
    assert [d["document_id"] for d in found["searched"]] == [mine]


async def test_a_document_is_read_in_parts_by_id_or_name(owner: Actor) -> None:
    paragraph = "The ferry left the harbour at nine and came back in the evening. " * 14
    document = await aupload(owner, "long.txt", "\n\n".join(f"{n}. {paragraph}" for n in range(5)).encode())
    first = await use(owner, read_document, document="long.txt", count=2)
    assert first["document_id"] == document
    assert [p["ordinal"] for p in first["passages"]] == [0, 1]
    assert first["next"] == 2
    rest = await use(owner, read_document, document=document, first=first["next"], count=20)
    assert [p["ordinal"] for p in rest["passages"]] == [2, 3, 4]
    assert rest["next"] is None
    assert (await use(owner, read_document, document=document, first=99))["passages"] == []


async def test_a_foreign_document_does_not_exist_by_id_or_name(owner: Actor, outsider: Actor) -> None:
    mine, _ = await _two(owner, outsider)
    for text in (mine, "mine.txt", "run_" + "0" * 32, "../mine.txt"):
        with pytest.raises(ToolFailed) as caught:
            await use(outsider, read_document, document=text)
        assert caught.value.code == "no_such_document"
    found = await use(outsider, search_documents, query="ferry", documents=[mine])
    assert (found["passages"], found["missing"]) == ([], [mine])


async def test_an_unreadable_document_says_why(owner: Actor) -> None:
    await aupload(owner, "empty.txt", b"")
    with pytest.raises(ToolFailed, match=r"empty\.txt is empty") as caught:
        await use(owner, read_document, document="empty.txt")
    assert caught.value.code == "document_unreadable"


async def _two(owner: Actor, outsider: Actor) -> tuple[str, str]:
    mine = await aupload(owner, "mine.txt", b"My ferry is blue.")
    return mine, await aupload(outsider, "theirs.txt", b"Their ferry is red.")
