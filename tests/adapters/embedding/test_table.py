"""Static models, with all that `model2vec` writes into them."""

import numpy as np
import pytest
from tokenizers import Tokenizer

from agenttool.adapters.embedding.model import open_model
from agenttool.errors import ConfigError


def test_tokens_may_share_rows_and_count_differently(folder, make):
    kinds = np.eye(3, dtype=np.float32)
    mapping = np.array([int(np.argmax(each)) for each in make.words.values()], np.int64)
    weights = np.ones(len(make.words), np.float64)
    weights[list(make.words).index("song")] = 3
    make.table(folder / "model.safetensors", embeddings=kinds, mapping=mapping, weights=weights)
    rain, both = open_model(folder).encode(["rain", "brolly song"])
    assert rain.tolist() == [1, 0, 0]
    assert both[2] == pytest.approx(3 * both[0])


def test_a_word_that_is_not_known_takes_nothing_from_the_others(static_model):
    rain, lost = open_model(static_model).encode(["rain", "rain xyzzy plugh"])
    assert (rain == lost).all()


def test_padding_that_a_tokenizer_was_saved_with_counts_for_nothing(static_model):
    before = open_model(static_model).encode(["rain song"])
    tokenizer = Tokenizer.from_file(str(static_model / "tokenizer.json"))
    tokenizer.enable_padding(length=128, pad_id=5)
    tokenizer.enable_truncation(1)
    tokenizer.save(str(static_model / "tokenizer.json"))
    assert (open_model(static_model).encode(["rain song"]) == before).all()


def test_a_tokenizer_of_another_model_is_refused(folder, make, words):
    make.table(folder / "model.safetensors", embeddings=words[:5])
    with pytest.raises(ConfigError, match=r"knows 13 tokens and .* has 5; take both from the same model"):
        open_model(folder)


def test_a_file_without_a_table_is_no_static_model(folder, make, words):
    make.table(folder / "model.safetensors", something=words)
    with pytest.raises(ConfigError, match="no table named 'embeddings'"):
        open_model(folder)
