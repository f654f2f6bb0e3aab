"""Two opinions on the same tools become one."""

from agenttool.catalog.search.fusion import fused


def test_each_opinion_counts_by_its_own_deviations():
    joined = fused({1: 0.9, 2: 0.1, 3: 0.1}, {1: 0.301, 2: 0.3, 3: 0.309})
    assert joined[1] > joined[3] > joined[2]
    assert all(0 < score < 1 for score in joined.values())


def test_a_meaning_that_is_not_known_yet_neither_helps_nor_hurts():
    joined = fused({1: 0.5, 2: 0.5, 3: 0.5}, {1: 0.9, 2: 0.1})
    assert joined[1] > joined[3] > joined[2]


def test_without_any_scores_there_is_nothing_to_join():
    assert fused({}, {}) == {}
