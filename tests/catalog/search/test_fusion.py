"""Two opinions on the same tools become one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.catalog.search.fusion import fused, wish_by_wish


def test_each_opinion_counts_by_its_own_deviations():
    joined = fused({1: 0.9, 2: 0.1, 3: 0.1}, [{1: 0.301, 2: 0.3, 3: 0.309}])
    assert joined[1] > joined[3] > joined[2]
    assert all(0 < score < 1 for score in joined.values())


def test_a_meaning_that_is_not_known_yet_neither_helps_nor_hurts():
    joined = fused({1: 0.5, 2: 0.5, 3: 0.5}, [{1: 0.9, 2: 0.1}])
    assert joined[1] > joined[3] > joined[2]


def test_each_sentence_is_measured_by_itself_so_that_a_loud_one_drowns_no_other():
    loud, low = {1: 0.9, 2: 0.7, 3: 0.7, 4: 0.7}, {1: 0.1, 2: 0.1, 3: 0.3, 4: 0.1}
    joined = fused({1: 0.5, 2: 0.5, 3: 0.5, 4: 0.5}, [loud, low])
    assert min(joined[1], joined[3]) > max(joined[2], joined[4])
    assert joined[1] == pytest.approx(joined[3])


def test_what_no_word_leads_to_is_found_only_if_its_meaning_stands_out():
    joined = fused({1: 0.0, 2: 0.0, 3: 0.0, 4: 0.2}, [{1: 0.8, 2: 0.1, 3: 0.2, 4: 0.1}])
    assert set(joined) == {1, 4}


def test_words_that_hardly_say_anything_do_not_outweigh_what_is_meant():
    joined = fused({1: 0.001, 2: 0.0, 3: 0.0}, [{1: 0.1, 2: 0.1, 3: 0.7}])
    assert joined[3] > joined[1]


def test_without_meanings_words_stand_alone():
    assert fused({}, []) == {}
    assert fused({1: 0.5, 2: 0.0}, [{}, {}]) == {1: 0.5, 2: 0.0}


def test_a_tool_that_no_word_leads_to_answers_the_sentence_that_it_means():
    opinions = {1: [0.4, 0.0], 2: [0.0, 0.0], 3: [0.0, 0.0]}
    joined = wish_by_wish(opinions, {0: {1: 0.7, 2: 0.1, 3: 0.1}, 1: {1: 0.1, 2: 0.1, 3: 0.7}})
    assert joined[1][0] > joined[1][1] == 0.0
    assert joined[3][1] > joined[3][0] == 0.0
    assert list(joined[2]) == [0.0, 0.0]


def test_a_sentence_without_a_meaning_is_left_to_words():
    opinions = {1: [0.4, 0.2], 2: [0.0, 0.4]}
    assert wish_by_wish(opinions, {}) == opinions
    joined = wish_by_wish(opinions, {0: {1: 0.1, 2: 0.7}})
    assert joined[2][1] == pytest.approx(2 * joined[1][1])


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(-1, 1), st.floats(-1, 1)), max_size=20))
def test_no_tool_is_lost_and_no_meaning_counts_against_one(told):
    opinions = {number: [one, other] for number, (one, other, _, _) in enumerate(told)}
    meanings = {at: {number: each[2 + at] for number, each in enumerate(told)} for at in (0, 1)}
    joined, by_words = wish_by_wish(opinions, meanings), wish_by_wish(opinions, {0: {}})
    assert joined.keys() == opinions.keys()
    assert all(mine[at] >= by_words[number][at] for number, mine in joined.items() for at in (0, 1))
