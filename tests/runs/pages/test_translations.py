import gettext
import io
import re

import pytest
from django.utils import translation

from runs.agents.registry import all_agents
from runs.pages.schema_form import fields_of
from tests.runs.pages import messages

PLACE = re.compile(r"%\(\w+\)[sd]")
GLOSSARY = {
    "Run": "运行", "attempt": "尝试", "Steps": "步骤", "Stop": "停止", "Stopping…": "正在停止…", "Stopped": "已停止",
    "Being verified": "结果待核实", "Interrupted. Not a final answer.": "已中断，非最终结果。",
    "Operation key": "操作键", "Retry stop": "重试停止",
}  # fmt: skip


@pytest.mark.parametrize("domain", ["django", "djangojs"])
def test_every_text_of_the_sources_has_a_translation(domain):
    """Run `python -m tests.runs.pages.messages` for the list; add the lines to the .po, and run it again."""
    assert messages.missing(domain) == set()


@pytest.mark.parametrize("domain", ["django", "djangojs"])
def test_the_compiled_catalogue_is_the_one_of_the_po(domain):
    entries = messages.read_po(messages.LOCALE / f"{domain}.po")
    assert (messages.LOCALE / f"{domain}.mo").read_bytes() == messages.compile_mo(entries)
    read = gettext.GNUTranslations(io.BytesIO(messages.compile_mo(entries)))
    for key, text in entries.items():
        if key and "\0" not in key:
            assert read.gettext(key) == text


@pytest.mark.parametrize("domain", ["django", "djangojs"])
def test_a_translation_has_the_places_of_its_text(domain):
    for key, text in messages.read_po(messages.LOCALE / f"{domain}.po").items():
        if key and text:
            assert set(PLACE.findall(key)) == set(PLACE.findall(text)), key


def test_the_glossary_is_kept():
    known = messages.read_po(messages.LOCALE / "djangojs.po") | messages.read_po(messages.LOCALE / "django.po")
    assert {word: known[word] for word in GLOSSARY} == GLOSSARY


def test_the_finder_sees_each_kind_of_source():
    assert "Skip to content" in messages.wanted("django")  # a template
    assert "Not started. Stops at once." in messages.wanted("django")  # a module
    assert "Retry stop" in messages.wanted("djangojs")


def test_the_forms_of_our_own_agents_are_translated():
    with translation.override("zh-hans"):
        for agent in all_agents():
            if not agent.is_listed:
                continue
            assert re.search("[一-鿿]", translation.gettext(agent.description)), agent.name
            for field in fields_of(agent.input_schema(), prefix=""):
                assert re.search("[一-鿿]", field.label), (agent.name, field.label)
                assert not field.help or re.search("[一-鿿]", field.help), (agent.name, field.help)


def test_the_language_switch_changes_the_pages_and_the_words_of_the_scripts(owner, as_owner):
    as_owner.post("/i18n/setlang/", {"language": "zh-hans", "next": "/runs/"})
    page = as_owner.get("/runs/").content.decode()
    assert '<html lang="zh-hans">' in page
    assert "还没有运行" in page
    assert "\\u91cd\\u8bd5\\u505c\\u6b62" in as_owner.get("/words.js").content.decode()  # Retry stop
