"""Which files of a folder are a model, and what its settings say."""

import json

import pytest

from agenttool.adapters.embedding.model import open_model
from agenttool.adapters.embedding.model_files import MAX_TOKENS, Pooling, find_model_files, read_model_settings
from agenttool.errors import ConfigError


def test_a_missing_folder_is_rejected(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no folder .*models are not downloaded"):
        find_model_files(tmp_path / "nowhere")


def test_a_folder_without_a_model_says_what_is_needed(folder):
    with pytest.raises(ConfigError, match=r"needs tokenizer.json, and model.onnx .* or a static model.safetensors"):
        find_model_files(folder)


@pytest.mark.parametrize("place", ["model.onnx", "onnx/model_quantized.onnx", "onnx/model_int8.onnx"])
def test_a_network_is_found_where_exporters_put_it(place, folder, make, words):
    make.network(folder / place, words)
    assert open_model(folder).dimensions == 3


def test_of_several_networks_the_most_precise_is_used(network, make, words):
    make.network(network / "onnx" / "model_quantized.onnx", words)
    assert find_model_files(network).weights == network / "onnx" / "model.onnx"


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
    with pytest.raises(ConfigError, match=r"Export a transformer .*: optimum-cli export onnx"):
        find_model_files(folder)


def test_a_pickle_is_never_opened(folder):
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch owned'\ntR.")
    with pytest.raises(ConfigError, match=r"a pickle, which is never opened"):
        open_model(folder)
    assert not (folder / "owned").exists()


def test_a_model_without_its_tokenizer_is_rejected_with_the_remedy(static_model):
    (static_model / "tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"has no tokenizer.json; save its fast tokenizer"):
        find_model_files(static_model)


@pytest.mark.parametrize(
    ("settings", "pooling"),
    [
        ({}, Pooling.MEAN),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, Pooling.CLS),
        ({"pooling_mode_max_tokens": True}, Pooling.MAX),
        ({"pooling_mode_lasttoken": True, "include_prompt": True}, Pooling.LAST),
        ({"pooling_mode": "cls", "word_embedding_dimension": 384}, Pooling.CLS),
    ],
)
def test_pooling_is_as_the_model_was_trained(settings, pooling, tmp_path):
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    assert read_model_settings(tmp_path).pooling == pooling


@pytest.mark.parametrize(
    "settings",
    [
        {"pooling_mode_weightedmean_tokens": True},
        {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True},
        {"pooling_mode": "weightedmean"},
    ],
)
def test_an_unsupported_pooling_is_rejected(settings, tmp_path):
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ConfigError, match=r"in its pooling; use one with pooling_mode_mean_tokens"):
        read_model_settings(tmp_path)


def test_an_unsupported_layer_is_rejected(tmp_path):
    (tmp_path / "modules.json").write_text(
        '[{"path": "", "type": "sentence_transformers.models.Transformer"},'
        ' {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]'
    )
    with pytest.raises(ConfigError, match=r"a layer 'Dense' after its network; use a model without one"):
        read_model_settings(tmp_path)


def test_queries_and_texts_are_encoded_with_their_prompts(static_model):
    settings = {"prompts": {"query": "query ", "passage": "passage "}, "default_prompt_name": None}
    plain = open_model(static_model)
    (static_model / "config_sentence_transformers.json").write_text(json.dumps(settings))
    prompted = open_model(static_model)
    assert (prompted.encode_query(["rain"]) == plain.encode(["query rain"])).all()
    assert (prompted.encode(["rain"]) == plain.encode(["passage rain"])).all()
    assert prompted.digest != plain.digest


def test_a_default_prompt_precedes_queries_and_texts(tmp_path):
    settings = {"prompts": {"always": "tell: "}, "default_prompt_name": "always"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    assert (read_model_settings(tmp_path).query_prompt, read_model_settings(tmp_path).text_prompt) == (
        "tell: ",
        "tell: ",
    )


def test_a_text_is_truncated_to_the_length_that_the_model_supports(tmp_path):
    assert read_model_settings(tmp_path).max_tokens == MAX_TOKENS
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 128}')
    assert read_model_settings(tmp_path).max_tokens == 128
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 8192}')
    assert read_model_settings(tmp_path).max_tokens == MAX_TOKENS


def test_damaged_settings_are_rejected_with_the_file_name(tmp_path):
    (tmp_path / "modules.json").write_text("[")
    with pytest.raises(ConfigError, match=r"modules.json' is not valid JSON: .*; restore the model's own file"):
        read_model_settings(tmp_path)
