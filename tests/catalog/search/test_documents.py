"""Which fields of a tool are searched."""

import pytest

from agenttool.catalog.catalog import Catalog
from agenttool.catalog.search.index import ToolIndex
from agenttool.testing.fakes import scripted_tool

SCHEMA = {
    "type": "object",
    "properties": {
        "hue": {"type": "string", "description": "A colour, such as magenta."},
        "depth": {"description": ["no text"]},
        "open": True,
    },
}


@pytest.mark.parametrize(
    ("query", "reason"),
    [("hue", "a parameter says hue"), ("magenta", "a parameter's description says magenta"), ("text", None)],
)
def test_parameters_and_their_descriptions_are_searched(query, reason):
    index, entry = ToolIndex(), Catalog().prepare(scripted_tool("paint", schema=SCHEMA))[0]
    index.put(entry)
    index.catch_up(1)
    assert [each.reason for each in index.find(query, [entry.tool_id], 1)] == ([reason] if reason else [])


def test_a_word_in_the_name_counts_more_than_one_about_a_parameter():
    index, known = ToolIndex(), {}
    plain = {"type": "object", "properties": {"hue": {}}}
    for each in (scripted_tool("paint", schema=SCHEMA), scripted_tool("magenta", schema=plain)):
        entry = Catalog().prepare(each)[0]
        index.put(entry)
        known[entry.tool_id] = entry
    index.catch_up(2)
    assert [each.tool_id for each in index.find("something magenta", known, 2)] == [
        "tool_test.magenta",
        "tool_test.paint",
    ]
