"""The word tables: synonyms and categories."""

import dataclasses

import pytest

from agenttool.catalog.catalog import Catalog
from agenttool.catalog.search.index import ToolIndex
from agenttool.catalog.search.lexicon import related_words
from agenttool.catalog.search.tokens import stem
from agenttool.records import replace
from agenttool.testing.fakes import scripted_tool


def test_a_word_is_not_related_to_itself():
    assert stem("movie") not in related_words(stem("movies"))
    assert related_words("zebra") == ()


@pytest.mark.parametrize("word", ["get", "movi", "email"])
def test_synonyms_are_symmetric(word):
    synonyms = {"get": "fetch", "movi": "film", "email": "mail"}
    assert synonyms[word] in related_words(word)
    assert word in related_words(synonyms[word])


def test_an_example_is_related_to_its_category_but_not_the_reverse():
    assert stem("weather") in related_words(stem("raining"))
    assert stem("rain") not in related_words(stem("weather"))


def named(name):
    declared = scripted_tool(name, namespace="test")
    declaration = replace(declared.declaration, description="")
    return Catalog().prepare(dataclasses.replace(declared, declaration=declaration))[0]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("will it rain in Oslo", "get_weather"),
        ("how many yen do I get", "convert_currency"),
        ("who sang this album", "search_music"),
        ("I feel like Gemini today", "daily_horoscope"),
    ],
)
def test_an_example_finds_the_tool_for_its_category(query, name):
    names = ("get_weather", "convert_currency", "search_music", "daily_horoscope", "paint_fence", "open_door")
    entries = [named(each) for each in names]
    index, known = ToolIndex(), {each.tool_id: each for each in entries}
    for each in entries:
        index.put(each)
    index.catch_up(100)
    assert index.find(query, known, 1)[0].tool_id == f"tool_test.{name}"


@pytest.mark.parametrize(("query", "name"), [("run the build again", "re-run_build"), ("remove a card", "detach_card")])
def test_words_for_the_same_action_decide_between_tools_for_one_thing(query, name):
    entries = [
        named(each) for each in ("run_build", "get_build", "re-run_build", "add_card", "get_card", "detach_card")
    ]
    index, known = ToolIndex(), {each.tool_id: each for each in entries}
    for each in entries:
        index.put(each)
    index.catch_up(100)
    assert index.find(query, known, 1)[0].tool_id == f"tool_test.{name}"
