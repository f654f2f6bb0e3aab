"""A model is used as its own settings say."""

import json

import pytest

from agenttool.adapters.embedding.model import open_model
from agenttool.adapters.embedding.wishes import LONGEST, Pooling, wishes_of
from agenttool.errors import ConfigError


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
    assert wishes_of(tmp_path).pooling == pooling


@pytest.mark.parametrize(
    "settings",
    [
        {"pooling_mode_weightedmean_tokens": True},
        {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True},
        {"pooling_mode": "weightedmean"},
    ],
)
def test_another_pooling_is_refused(settings, tmp_path):
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ConfigError, match=r"in its pooling; use one with pooling_mode_mean_tokens"):
        wishes_of(tmp_path)


def test_a_layer_that_we_do_not_know_is_refused(tmp_path):
    (tmp_path / "modules.json").write_text(
        '[{"path": "", "type": "sentence_transformers.models.Transformer"},'
        ' {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]'
    )
    with pytest.raises(ConfigError, match=r"a layer 'Dense' after its network; use a model without one"):
        wishes_of(tmp_path)


def test_queries_and_texts_are_put_with_their_prompts(static_model):
    settings = {"prompts": {"query": "query ", "passage": "passage "}, "default_prompt_name": None}
    plain = open_model(static_model)
    (static_model / "config_sentence_transformers.json").write_text(json.dumps(settings))
    prompted = open_model(static_model)
    assert (prompted.ask(["rain"]) == plain.encode(["query rain"])).all()
    assert (prompted.encode(["rain"]) == plain.encode(["passage rain"])).all()
    assert prompted.name != plain.name


def test_a_prompt_by_default_is_put_before_both(tmp_path):
    settings = {"prompts": {"always": "tell: "}, "default_prompt_name": "always"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    assert (wishes_of(tmp_path).query_prompt, wishes_of(tmp_path).text_prompt) == ("tell: ", "tell: ")


def test_a_model_reads_no_more_than_it_was_trained_to(tmp_path):
    assert wishes_of(tmp_path).longest == LONGEST
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 128}')
    assert wishes_of(tmp_path).longest == 128
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 8192}')
    assert wishes_of(tmp_path).longest == LONGEST


def test_damaged_settings_are_told_by_file(tmp_path):
    (tmp_path / "modules.json").write_text("[")
    with pytest.raises(ConfigError, match=r"modules.json' is no JSON: .*; put the model's own file there"):
        wishes_of(tmp_path)
