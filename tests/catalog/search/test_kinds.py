"""An example asks for its kind, and a kind for none of its examples."""

import dataclasses

import pytest

from agenttool.catalog.catalog import Catalog
from agenttool.catalog.search.index import Index
from agenttool.catalog.search.kinds import kinds_of
from agenttool.catalog.search.words import stem
from agenttool.records import replace
from agenttool.testing.fakes import scripted_tool


def named(name):
    declared = scripted_tool(name, namespace="test")
    declaration = replace(declared.declaration, description="")
    return Catalog().declare(dataclasses.replace(declared, declaration=declaration))


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("will it rain in Oslo", "get_weather"),
        ("how many yen do I get", "convert_currency"),
        ("who sang this album", "search_music"),
        ("I feel like Gemini today", "daily_horoscope"),
    ],
)
def test_who_gives_an_example_finds_the_tool_for_its_kind(query, name):
    names = ("get_weather", "convert_currency", "search_music", "daily_horoscope", "paint_fence", "open_door")
    entries = [named(each) for each in names]
    index, known = Index(), {each.tool_id: each for each in entries}
    for each in entries:
        index.put(each)
    index.catch_up(100)
    assert index.find(query, known, 1)[0].tool_id == f"tool_test.{name}"


def test_a_kind_stands_for_no_example():
    assert stem("weather") in kinds_of(stem("raining"))
    assert stem("rain") not in kinds_of(stem("weather"))
