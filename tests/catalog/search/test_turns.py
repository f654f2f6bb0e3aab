"""Who asks for several things is given tools for each of them."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.catalog.catalog import Catalog
from agenttool.catalog.search.index import Index
from agenttool.catalog.search.turns import in_turns
from agenttool.records import ToolId, replace
from agenttool.testing.fakes import scripted_tool

KINDS = [
    "paper",
    "draft",
    "final",
    "proforma",
    "credit",
    "debit",
    "yearly",
    "monthly",
    "partial",
    "foreign",
    "tax",
    "donation",
]


def entry(name, description):
    declared = scripted_tool(name, namespace="test")
    declaration = replace(declared.declaration, description=description)
    return Catalog().declare(dataclasses.replace(declared, declaration=declaration))


@pytest.mark.parametrize("crowd", [0, 1000], ids=["few", "many"])
@pytest.mark.parametrize(
    "query",
    [
        "Send the customer an invoice. Tell me whether it rains in Oslo.",
        "send the customer an invoice, and tell me whether it rains in Oslo",
        "send the customer an invoice then tell me whether it rains in Oslo",
        "First send the customer an invoice; after that tell me whether it rains in Oslo",
    ],
)
def test_many_tools_for_one_wish_leave_room_for_the_only_one_that_answers_the_other(query, crowd):
    entries = [entry(f"send_{kind}_invoice", "Send a customer an invoice.") for kind in KINDS]
    entries += [entry("observe_sky", "Tell whether it rains."), entry("paint_fence", "Paint a fence.")]
    entries += [entry(f"chore_{n}", f"Do chore number {n}.") for n in range(crowd)]
    index, known = Index(), {each.tool_id: each for each in entries}
    for each in entries:
        index.put(each)
    while index.catch_up(1000):
        pass
    found = index.find(query, known, 3)
    assert "tool_test.observe_sky" in [each.tool_id for each in found]
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1)), max_size=30))
def test_every_tool_has_its_turn_and_none_is_worth_more_than_the_one_before(wishes):
    opinions = {number: mine for number, (*mine, _) in enumerate(wishes)}
    ranked = [(-score, ToolId(f"tool_{number}"), number) for number, (*_, score) in enumerate(wishes)]
    given_out = list(in_turns(ranked, opinions))
    assert sorted(number for _, _, number in given_out) == list(opinions)
    assert [score for score, _, _ in given_out] == sorted(score for score, _, _ in given_out)
    assert given_out[:1] == sorted(ranked)[:1]
