"""Networks in ONNX form give one vector a text, pooled as they were trained."""

import json

import numpy as np
import pytest

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
def test_each_pooling_sees_the_text_and_not_its_padding(switch, expected, network):
    (network / "1_Pooling").mkdir()
    (network / "1_Pooling" / "config.json").write_text(json.dumps({switch: True}))
    short, long = open_model(network).encode(["rain bill", "song song song song rain bill"])
    wanted = np.array(expected) / np.linalg.norm(expected)
    np.testing.assert_allclose(short, wanted, atol=1e-6)
    assert long.shape == short.shape


def test_token_types_are_given_if_they_are_asked_for(folder, make, words):
    make.network(folder / "model.onnx", words, more=["token_type_ids"])
    assert open_model(folder).encode(["rain"]).tolist() == [[1, 0, 0]]


def test_a_network_that_asks_for_something_else_is_refused(folder, make, words):
    make.network(folder / "model.onnx", words, more=["pixel_values"])
    with pytest.raises(ConfigError, match=r"asks for pixel_values; use the network of a sentence model"):
        open_model(folder)
