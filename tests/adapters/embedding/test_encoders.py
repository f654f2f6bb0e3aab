"""Networks in ONNX form and static tables encode a text as one vector."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer

from agenttool.adapters.embedding.model import open_model
from agenttool.errors import ConfigError


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        ("pooling_mode_mean_tokens", (1 / 2, 1 / 2, 0)),
        ("pooling_mode_cls_token", (1, 0, 0)),
        ("pooling_mode_max_tokens", (1, 1, 0)),
        ("pooling_mode_lasttoken", (0, 1, 0)),
    ],
)
def test_each_pooling_ignores_padding(switch, expected, network):
    (network / "1_Pooling").mkdir()
    (network / "1_Pooling" / "config.json").write_text(json.dumps({switch: True}))
    short, long = open_model(network).encode(["rain bill", "song song song song rain bill"])
    wanted = np.array(expected) / np.linalg.norm(expected)
    np.testing.assert_allclose(short, wanted, atol=1e-6)
    assert long.shape == short.shape


def test_token_types_are_passed_to_a_network_that_takes_them(folder, make, words):
    make.network(folder / "model.onnx", words, more=["token_type_ids"])
    assert open_model(folder).encode(["rain"]).tolist() == [[1, 0, 0]]


def test_a_network_with_unsupported_inputs_is_rejected(folder, make, words):
    make.network(folder / "model.onnx", words, more=["pixel_values"])
    with pytest.raises(ConfigError, match=r"asks for pixel_values; use the network of a sentence model"):
        open_model(folder)


def test_tokens_may_share_rows_and_have_different_weights(folder, make):
    kinds = np.eye(3, dtype=np.float32)
    mapping = np.array([int(np.argmax(each)) for each in make.words.values()], np.int64)
    weights = np.ones(len(make.words), np.float64)
    weights[list(make.words).index("song")] = 3
    make.table(folder / "model.safetensors", embeddings=kinds, mapping=mapping, weights=weights)
    rain, both = open_model(folder).encode(["rain", "brolly song"])
    assert rain.tolist() == [1, 0, 0]
    assert both[2] == pytest.approx(3 * both[0])


def test_an_unknown_word_does_not_change_the_vector(static_model):
    rain, lost = open_model(static_model).encode(["rain", "rain xyzzy plugh"])
    assert (rain == lost).all()


def test_padding_and_truncation_saved_with_a_tokenizer_are_ignored(static_model):
    before = open_model(static_model).encode(["rain song"])
    tokenizer = Tokenizer.from_file(str(static_model / "tokenizer.json"))
    tokenizer.enable_padding(length=128, pad_id=5)
    tokenizer.enable_truncation(1)
    tokenizer.save(str(static_model / "tokenizer.json"))
    assert (open_model(static_model).encode(["rain song"]) == before).all()


def test_a_tokenizer_of_another_model_is_rejected(folder, make, words):
    make.table(folder / "model.safetensors", embeddings=words[:5])
    with pytest.raises(ConfigError, match=r"knows 13 tokens and .* has 5; take both from the same model"):
        open_model(folder)


def test_a_file_without_a_table_is_no_static_model(folder, make, words):
    make.table(folder / "model.safetensors", something=words)
    with pytest.raises(ConfigError, match="no table named 'embeddings'"):
        open_model(folder)
