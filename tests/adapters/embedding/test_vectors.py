"""Quantized vectors in memory, and their cache file."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.embedding.model import EmbeddingModel
from agenttool.adapters.embedding.vectors import CACHE_FILE, EXACT_LIMIT, VectorCache, VectorTable


def vectors(seed, count, dimensions):
    found = np.random.default_rng(seed).normal(size=(count, dimensions)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@given(st.integers(0, 2**32), st.integers(1, 400))
def test_quantized_vectors_have_the_same_similarity_to_two_places(seed, dimensions):
    one, other = vectors(seed, 2, dimensions)
    rows = VectorTable(dimensions)
    rows.put(7, rows.quantized(one))
    assert rows.similarity(other, [7])[7] == pytest.approx(float(one @ other), abs=0.02)


@given(st.lists(st.tuples(st.integers(0, 90), st.booleans()), max_size=60))
def test_only_vectors_that_were_put_and_not_removed_are_found(steps):
    (row,) = vectors(1, 1, 5)
    rows, there = VectorTable(5), set()
    for number, stays in steps:
        if stays:
            rows.put(number, rows.quantized(row))
            there.add(number)
        else:
            rows.remove(number)
            there.discard(number)
    assert set(rows.nearest(row, 1000)) == set(rows.similarity(row, list(range(200)))) == there


def test_selection_by_signs_finds_nearly_the_same_vectors_as_an_exact_search():
    kinds, noise = vectors(2, 40, 256), vectors(3, EXACT_LIMIT + 2000, 256)
    made = kinds[np.arange(len(noise)) % 40] + noise
    rows = VectorTable(256)
    for number, row in enumerate(made):
        rows.put(number, rows.quantized(row))
    exact = np.argsort(-(made @ kinds[0]) / np.linalg.norm(made, axis=1))[:64]
    found = rows.nearest(kinds[0], 64)
    assert found[:5] == exact[:5].tolist()
    assert len(set(found) & set(exact.tolist())) > 60


def test_selection_by_signs_works_with_equal_vectors():
    (row,) = vectors(4, 1, 100)
    rows = VectorTable(100)
    for number in range(EXACT_LIMIT + 1):
        rows.put(number, rows.quantized(row))
    assert len(rows.nearest(-row, 5)) == 5


def test_a_zero_vector_is_similar_to_nothing():
    rows = VectorTable(3)
    rows.put(0, rows.quantized(np.zeros(3, np.float32)))
    assert rows.similarity(np.array([1, 0, 0], np.float32), [0]) == {0: 0.0}


def test_cached_vectors_survive_a_restart(tmp_path):
    first = VectorCache(tmp_path)
    first.store({b"one": b"\1\2", b"two": b"\3\4"})
    first.close()
    again = VectorCache(tmp_path)
    assert again.find([b"two", b"three"]) == {b"two": b"\3\4"}
    again.close()


def test_two_processes_share_a_cache_file(tmp_path):
    one, other = VectorCache(tmp_path), VectorCache(tmp_path)
    one.store({b"one": b"\1"})
    other.store({b"two": b"\2"})
    assert one.find([b"two"]) | other.find([b"one"]) == {b"one": b"\1", b"two": b"\2"}
    one.close()
    other.close()


def test_an_unusable_cache_file_is_replaced_by_memory(tmp_path):
    (tmp_path / CACHE_FILE).write_bytes(b"rubbish" * 1000)
    for folder in (tmp_path, tmp_path / "nowhere", None):
        cache = VectorCache(folder)
        cache.store({b"one": b"\1"})
        assert cache.find([b"one"]) == {b"one": b"\1"}
        cache.close()
    assert (tmp_path / CACHE_FILE).read_bytes() == b"rubbish" * 1000


def test_the_cache_key_depends_on_model_and_text():
    small, large = (EmbeddingModel(digest, 3, encode=list, encode_query=list) for digest in ("small", "large"))
    assert small.content_key("rain") != large.content_key("rain")
    assert small.content_key("rain\ud800") != small.content_key("rain")
