"""What a query asks for, read against the words of a catalog."""

import dataclasses

import pytest

from agenttool.catalog.catalog import Entry
from agenttool.catalog.search.query import WHISPERED, read_query, telling_sentences
from agenttool.catalog.search.shelf import Shelf
from agenttool.catalog.search.synonyms import deed_of, same_as
from agenttool.catalog.search.words import stem
from agenttool.records import replace
from agenttool.testing.fakes import scripted_tool

CATALOG = ["get_movie", "delete_movie", "send_email", "storagepool_list", "list_pool", "show_how"]


@pytest.fixture
def shelf():
    shelf = Shelf()
    for number, name in enumerate(CATALOG):
        tool = scripted_tool(name)
        declaration = replace(tool.declaration, description="")
        shelf.put({number: Entry(tool=dataclasses.replace(tool, declaration=declaration))})
    shelf.settle()
    return shelf


def answers(query, shelf):
    return {
        each.said: {answer.word: answer.likeness for answer in each.answers} for each in read_query(query, shelf).asked
    }


def test_words_of_asking_are_whispered_unless_there_are_no_others(shelf):
    read = read_query("Please help me, I need to know how to send emails", shelf)
    assert [each.said for each in read.asked] == ["know", "send", "emails"]
    assert [each.said for each in read.whispered if each.answers] == ["how"]
    assert {each.loudness for each in read.whispered} == {WHISPERED}
    alone = read_query("how can I help you", shelf)
    assert [each.said for each in alone.asked] == ["how", "can", "i", "help", "you"]
    assert not alone.whispered


def test_words_of_asking_count_if_nothing_answers_the_others(shelf):
    read = read_query("how come xylophones", shelf)
    assert [each.said for each in read.asked if each.answers] == ["how"]


def test_a_repeated_word_counts_once_and_in_every_sentence_it_is_in(shelf):
    read = read_query("Email emails. A movie! An EMAIL?", shelf)
    assert [(each.said, each.sentences) for each in read.asked] == [("email", (0, 2)), ("movie", (1,))]


def test_what_means_much_the_same_answers_for_less(shelf):
    found = answers("erase a film", shelf)
    assert found == {"erase": {stem("delete"): 0.4}, "film": {stem("movie"): 0.4}}
    assert answers("list", shelf)["list"]["list"] == 1.0
    assert 0 < answers("list", shelf)["list"]["get"] <= 0.4


def test_two_words_answer_to_one_that_is_written_together(shelf):
    found = answers("the storage pool", shelf)
    assert found["storage"] == {"storagepool": 1.0}
    assert found["pool"] == {"pool": 1.0, "storagepool": 1.0}


@pytest.mark.parametrize(
    ("query", "deeds"),
    [
        ("remove it", ["delete"]),
        ("What is on?", ["get"]),
        ("I wonder what it is", []),
        ("erase or change a film", ["delete", "update"]),
    ],
)
def test_a_sentence_names_deeds_and_a_question_asks_to_be_told(query, deeds, shelf):
    assert read_query(query, shelf).deeds[0] == {deed_of(stem(each)) for each in deeds}


def test_sentences_of_small_talk_mean_nothing():
    letter = "Hi there! My wife told me about this yesterday. Please send the parcel to Denver. Thanks"
    assert telling_sentences(letter) == ["Please send the parcel to Denver"]
    assert telling_sentences("Thanks. You are great!") == ["Thanks. You are great!"]


def test_whoever_stands_for_a_word_is_stood_for_by_it():
    assert "film" in same_as("movi")
    assert all(word in same_as(other) for word in ("get", "movi", "email") for other in same_as(word))
