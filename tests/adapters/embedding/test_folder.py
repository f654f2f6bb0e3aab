"""Which files of a folder are a model, and what is said of those that are none."""

import pytest

from agenttool.adapters.embedding.folder import look_into
from agenttool.adapters.embedding.model import open_model
from agenttool.errors import ConfigError


def test_a_folder_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no folder .*nothing is downloaded"):
        look_into(tmp_path / "nowhere")


def test_a_folder_without_a_model_says_what_is_needed(folder):
    with pytest.raises(ConfigError, match=r"needs tokenizer.json, and model.onnx .* or a static model.safetensors"):
        look_into(folder)


@pytest.mark.parametrize("place", ["model.onnx", "onnx/model_quantized.onnx", "onnx/model_int8.onnx"])
def test_a_network_is_found_where_exporters_put_it(place, folder, make, words):
    make.network(folder / place, words)
    assert open_model(folder).dimensions == 3


def test_of_several_networks_the_most_faithful_is_taken(network, make, words):
    make.network(network / "onnx" / "model_quantized.onnx", words)
    assert look_into(network).weights == network / "onnx" / "model.onnx"


def test_a_static_model_of_sentence_transformers_lies_in_a_folder_of_its_own(folder, make, words):
    inner = folder / "0_StaticEmbedding"
    inner.mkdir()
    (folder / "tokenizer.json").rename(inner / "tokenizer.json")
    (folder / "modules.json").write_text(
        '[{"idx": 0, "path": "0_StaticEmbedding", "type": "sentence_transformers.models.StaticEmbedding"}]'
    )
    make.table(inner / "model.safetensors", **{"embedding.weight": words})
    assert open_model(folder).dimensions == 3


def test_the_weights_of_a_transformer_are_no_static_model(folder, make, words):
    make.table(folder / "model.safetensors", **{"embeddings.word_embeddings.weight": words})
    (folder / "config.json").write_text('{"model_type": "bert", "num_hidden_layers": 6}')
    with pytest.raises(ConfigError, match=r"without its network; export it first: optimum-cli export onnx"):
        look_into(folder)


def test_a_pickle_is_never_opened(folder):
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch owned'\ntR.")
    with pytest.raises(ConfigError, match=r"a pickle runs whatever it likes .*export it first"):
        open_model(folder)
    assert not (folder / "owned").exists()


def test_networks_with_other_names_are_told_by_name(folder, make, words):
    make.network(folder / "onnx" / "mine.onnx", words)
    with pytest.raises(ConfigError, match=r"it has mine.onnx; name the one to use model.onnx"):
        look_into(folder)


def test_a_model_without_its_tokenizer_says_how_to_get_it(static_model):
    (static_model / "tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"has no tokenizer.json; save its fast tokenizer"):
        look_into(static_model)
