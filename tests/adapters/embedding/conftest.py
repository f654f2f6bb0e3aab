"""Tiny models, made here with the real libraries: one vector per word, so that what is near is known."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace

# What a word is about: water, money, sound.
WORDS = {
    "[UNK]": (0.01, 0.01, 0.01),
    "rain": (1, 0, 0), "umbrella": (1, 0, 0), "weather": (1, 0, 0.1), "forecast": (0.9, 0.1, 0),
    "invoice": (0, 1, 0), "bill": (0, 1, 0), "customer": (0.1, 0.9, 0),
    "song": (0, 0, 1), "music": (0, 0, 1), "play": (0, 0.1, 0.9),
}  # fmt: skip


@pytest.fixture
def words():
    return np.array(list(WORDS.values()), np.float32)


@pytest.fixture
def folder(tmp_path):
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "tiny"}))
    return tmp_path


@pytest.fixture
def static_model(folder, words):
    save_file({"embeddings": words}, folder / "model.safetensors")
    return folder


@pytest.fixture
def network(folder, words):
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "tokens"])
    mask = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["texts", "tokens"])
    hidden = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["texts", "tokens", 3])
    look_up = helper.make_node("Gather", ["words", "input_ids"], ["last_hidden_state"])
    graph = helper.make_graph([look_up], "tiny", [ids, mask], [hidden], [numpy_helper.from_array(words, "words")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / "onnx").mkdir()
    onnx.save(model, folder / "onnx" / "model.onnx")
    return folder
