"""Scores by words and by meaning are combined, and several requests in one query are all answered."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.catalog.catalog import Catalog
from agenttool.catalog.search.index import ToolIndex
from agenttool.catalog.search.ranking import combine_scores, diversify
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


def test_scores_are_combined_as_z_scores():
    joined = combine_scores({1: 0.9, 2: 0.1, 3: 0.1}, [{1: 0.301, 2: 0.3, 3: 0.309}])
    assert joined[1] > joined[3] > joined[2]
    assert all(0 < score < 1 for score in joined.values())


def test_an_unknown_similarity_counts_as_average():
    joined = combine_scores({1: 0.5, 2: 0.5, 3: 0.5}, [{1: 0.9, 2: 0.1}])
    assert joined[1] > joined[3] > joined[2]


def test_the_similarity_to_each_sentence_has_its_own_z_scores():
    loud, low = {1: 0.9, 2: 0.7, 3: 0.7, 4: 0.7}, {1: 0.1, 2: 0.1, 3: 0.3, 4: 0.1}
    joined = combine_scores({1: 0.5, 2: 0.5, 3: 0.5, 4: 0.5}, [loud, low])
    assert min(joined[1], joined[3]) > max(joined[2], joined[4])
    assert joined[1] == pytest.approx(joined[3])


def test_a_tool_without_a_matching_word_must_stand_out_by_meaning():
    joined = combine_scores({1: 0.0, 2: 0.0, 3: 0.0, 4: 0.2}, [{1: 0.8, 2: 0.1, 3: 0.2, 4: 0.1}])
    assert set(joined) == {1, 4}


def test_tiny_differences_by_words_do_not_outweigh_meaning():
    joined = combine_scores({1: 0.001, 2: 0.0, 3: 0.0}, [{1: 0.1, 2: 0.1, 3: 0.7}])
    assert joined[3] > joined[1]


def test_without_similarities_scores_by_words_are_returned():
    assert combine_scores({}, []) == {}
    assert combine_scores({1: 0.5, 2: 0.0}, [{}, {}]) == {1: 0.5, 2: 0.0}


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
def test_many_tools_for_one_request_leave_room_for_another_request(query, crowd):
    entries = [entry(f"send_{kind}_invoice", "Send a customer an invoice.") for kind in KINDS]
    entries += [entry("observe_sky", "Tell whether it rains."), entry("paint_fence", "Paint a fence.")]
    entries += [entry(f"chore_{n}", f"Do chore number {n}.") for n in range(crowd)]
    index, known = ToolIndex(), {each.tool_id: each for each in entries}
    for each in entries:
        index.put(each)
    while index.catch_up(1000):
        pass
    found = index.find(query, known, 3)
    assert "tool_test.observe_sky" in [each.tool_id for each in found]
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1)), max_size=30))
def test_diversify_lists_every_tool_by_descending_score(requests):
    scores = {number: mine for number, (*mine, _) in enumerate(requests)}
    ranked = [(-score, ToolId(f"tool_{number}"), number) for number, (*_, score) in enumerate(requests)]
    listed = list(diversify(ranked, scores))
    assert sorted(number for _, _, number in listed) == list(scores)
    assert [score for score, _, _ in listed] == sorted(score for score, _, _ in listed)
    assert listed[:1] == sorted(ranked)[:1]
