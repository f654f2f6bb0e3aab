"""A query is parsed into terms that match words of the catalog."""

import dataclasses

import pytest

from agenttool.catalog.entry import Entry
from agenttool.catalog.search.documents import ToolDocuments
from agenttool.catalog.search.query import FILLER_WEIGHT, content_sentences, parse_query
from agenttool.catalog.search.tokens import stem
from agenttool.records import replace
from agenttool.testing.fakes import scripted_tool

CATALOG = ["get_movie", "delete_movie", "send_email", "storagepool_list", "list_pool", "show_how"]


@pytest.fixture
def store():
    store = ToolDocuments()
    for number, name in enumerate(CATALOG):
        tool = scripted_tool(name)
        declaration = replace(tool.declaration, description="")
        store.put({number: Entry(tool=dataclasses.replace(tool, declaration=declaration))})
    return store


def matches(query, store):
    return {
        each.spelling: {match.word: match.similarity for match in each.matches}
        for each in parse_query(query, store).terms
    }


def test_filler_words_have_little_weight_unless_there_are_no_others(store):
    read = parse_query("Please help me, I need to know how to send emails", store)
    assert [each.spelling for each in read.terms] == ["know", "send", "emails"]
    assert [each.spelling for each in read.fillers if each.matches] == ["how"]
    assert {each.boost for each in read.fillers} == {FILLER_WEIGHT}
    alone = parse_query("how can I help you", store)
    assert [each.spelling for each in alone.terms] == ["how", "can", "i", "help", "you"]
    assert not alone.fillers


def test_filler_words_count_if_no_other_word_matches(store):
    read = parse_query("how come xylophones", store)
    assert [each.spelling for each in read.terms if each.matches] == ["how"]


def test_a_repeated_word_is_one_term(store):
    read = parse_query("Email emails. A movie! An EMAIL?", store)
    assert [each.spelling for each in read.terms] == ["email", "movie"]


def test_a_synonym_matches_with_less_weight(store):
    found = matches("erase a film", store)
    assert found == {"erase": {stem("delete"): 0.4}, "film": {stem("movie"): 0.4}}
    assert matches("list", store)["list"]["list"] == 1.0
    assert 0 < matches("list", store)["list"]["get"] <= 0.4


def test_two_words_match_their_compound(store):
    found = matches("the storage pool", store)
    assert found["storage"] == {"storagepool": 1.0}
    assert found["pool"] == {"pool": 1.0, "storagepool": 1.0}


def test_sentences_of_small_talk_are_not_encoded():
    letter = "Hi there! My wife told me about this yesterday. Please send the parcel to Denver. Thanks"
    assert content_sentences(letter) == ["Please send the parcel to Denver"]
    assert content_sentences("Thanks. You are great!") == ["Thanks. You are great!"]
