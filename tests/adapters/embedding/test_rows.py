"""Vectors in short form are still those vectors, also among very many."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.embedding.rows import LOOKED_AT, Rows, shortened


def vectors(seed, count, dimensions):
    found = np.random.default_rng(seed).normal(size=(count, dimensions)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@given(st.integers(0, 2**32), st.integers(1, 400))
def test_a_byte_a_dimension_tells_likeness_to_the_second_place(seed, dimensions):
    one, other = vectors(seed, 2, dimensions)
    rows = Rows(dimensions)
    rows.put(7, shortened(one))
    assert rows.likeness(other, [7])[7] == pytest.approx(float(one @ other), abs=0.02)


@given(st.lists(st.tuples(st.integers(0, 90), st.booleans()), max_size=60))
def test_only_what_was_put_and_not_dropped_is_found(steps):
    (row,) = vectors(1, 1, 5)
    rows, there = Rows(5), set()
    for number, stays in steps:
        if stays:
            rows.put(number, shortened(row))
            there.add(number)
        else:
            rows.drop(number)
            there.discard(number)
    assert set(rows.nearest(row, 1000)) == set(rows.likeness(row, list(range(200)))) == there


def test_among_very_many_the_nearest_are_found_as_if_all_were_compared():
    kinds, noise = vectors(2, 40, 256), vectors(3, LOOKED_AT + 2000, 256)
    made = kinds[np.arange(len(noise)) % 40] + noise
    rows = Rows(256)
    for number, row in enumerate(made):
        rows.put(number, shortened(row))
    exact = np.argsort(-(made @ kinds[0]) / np.linalg.norm(made, axis=1))[:64]
    found = rows.nearest(kinds[0], 64)
    assert found[:5] == exact[:5].tolist()
    assert len(set(found) & set(exact.tolist())) > 60


def test_among_very_many_that_are_all_the_same_some_are_found():
    (row,) = vectors(4, 1, 100)
    rows = Rows(100)
    for number in range(LOOKED_AT + 1):
        rows.put(number, shortened(row))
    assert len(rows.nearest(-row, 5)) == 5


def test_a_vector_without_length_is_like_nothing():
    rows = Rows(3)
    rows.put(0, shortened(np.zeros(3, np.float32)))
    assert rows.likeness(np.array([1, 0, 0], np.float32), [0]) == {0: 0.0}
