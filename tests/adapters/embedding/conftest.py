"""Tiny models with known vectors, and a real one from the wheel of `wordllama`."""

import json
from importlib.metadata import files
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace

# The dimensions are water, money and sound.
WORDS = {
    "[UNK]": (0.01, 0.01, 0.01),
    "rain": (1, 0, 0), "brolly": (1, 0, 0), "weather": (1, 0, 0.1), "forecast": (0.9, 0.1, 0),
    "invoice": (0, 1, 0), "bill": (0, 1, 0), "customer": (0.1, 0.9, 0),
    "song": (0, 0, 1), "music": (0, 0, 1), "play": (0, 0.1, 0.9),
    "query": (0, 0, 0.1), "passage": (0, 0.1, 0),
}  # fmt: skip


@pytest.fixture
def words():
    return np.array(list(WORDS.values()), np.float32)


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "model"
    place.mkdir()
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    tokenizer.save(str(place / "tokenizer.json"))
    (place / "config.json").write_text(json.dumps({"model_type": "tiny"}))
    return place


@pytest.fixture
def static_model(folder, words):
    save_file({"embeddings": words}, folder / "model.safetensors")
    return folder


def write_network(file, table, more=()):
    """Write a network that looks up one vector per token, without pooling."""
    taken = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
        for name in ("input_ids", "attention_mask", *more)
    ]
    hidden = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["texts", "tokens", table.shape[1]])
    look_up = helper.make_node("Gather", ["words", "input_ids"], ["last_hidden_state"])
    graph = helper.make_graph([look_up], "table", taken, [hidden], [numpy_helper.from_array(table, "words")])
    file.parent.mkdir(exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)


@pytest.fixture
def network(folder, words):
    write_network(folder / "onnx" / "model.onnx", words)
    return folder


@pytest.fixture(scope="session")
def real_model(tmp_path_factory):
    """Write a real model in the layout of `model2vec`: 32,000 tokens, 256 dimensions."""
    place = tmp_path_factory.mktemp("real")
    held = {path.name: path.locate() for path in files("wordllama") or ()}
    (table,) = load_file(held["l2_supercat_256.safetensors"]).values()
    save_file({"embeddings": table}, place / "model.safetensors")
    (place / "tokenizer.json").write_bytes(held["l2_supercat_tokenizer_config.json"].read_bytes())
    settings = {"model_type": "model2vec", "architectures": ["StaticModel"], "hidden_dim": 256, "normalize": True}
    (place / "config.json").write_text(json.dumps(settings))
    return place


@pytest.fixture(scope="session")
def real_network(real_model, tmp_path_factory):
    """Write the same weights in the layout of `sentence-transformers`, with a network in ONNX form."""
    place = tmp_path_factory.mktemp("network")
    (table,) = load_file(real_model / "model.safetensors").values()
    write_network(place / "onnx" / "model.onnx", table.astype(np.float32))
    tokenizer = Tokenizer.from_file(str(real_model / "tokenizer.json"))
    tokenizer.enable_padding(length=128)  # as many are saved
    tokenizer.post_processor = None
    tokenizer.save(str(place / "tokenizer.json"))
    layers = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    listed = [
        {"idx": at, "path": path, "type": f"sentence_transformers.models.{name}"}
        for at, (name, path) in enumerate(layers)
    ]
    (place / "modules.json").write_text(json.dumps(listed))
    (place / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 128, "do_lower_case": False}))
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling" / "config.json").write_text(
        json.dumps({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True})
    )
    return place


@pytest.fixture
def make():
    """Return functions that write the files of other models."""
    return SimpleNamespace(network=write_network, table=lambda file, **tensors: save_file(tensors, file), words=WORDS)
