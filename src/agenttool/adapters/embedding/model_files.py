"""Find the files of an embedding model in a local folder and read its settings.

The layouts of `sentence-transformers`, `model2vec` and `optimum` are supported. Nothing is downloaded.
"""

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from agenttool.errors import ConfigError
from agenttool.records import Json, JsonObject

NETWORKS = (
    "model.onnx",
    "onnx/model.onnx",
    "model_optimized.onnx",
    "onnx/model_quantized.onnx",
    "model_quantized.onnx",
    "onnx/model_int8.onnx",
    "onnx/model_fp16.onnx",
)
"""Paths of ONNX networks inside a model folder, the most precise first."""

TABLES = ("0_StaticEmbedding/model.safetensors", "model.safetensors")
"""Paths of static embedding tables inside a model folder."""

MAX_TOKENS = 256
"""Tokens of a text that are encoded at most. The description of a tool is shorter."""

LAYERS = ("Transformer", "Pooling", "Normalize", "StaticEmbedding")
"""Layers of `sentence-transformers` that are supported. Every vector is normalized here."""

_NEEDED = (
    "it needs tokenizer.json, and model.onnx (or onnx/model.onnx) or a static model.safetensors. Export a transformer"
    " or a pickle, which is never opened: optimum-cli export onnx --task feature-extraction --model FOLDER NEW_FOLDER"
)


class Pooling(StrEnum):
    """How the token vectors of a network are reduced to one vector."""

    MEAN = "mean"
    CLS = "cls"
    MAX = "max"
    LAST = "lasttoken"


POOLING_SWITCHES = {
    "pooling_mode_mean_tokens": Pooling.MEAN,
    "pooling_mode_cls_token": Pooling.CLS,
    "pooling_mode_max_tokens": Pooling.MAX,
    "pooling_mode_lasttoken": Pooling.LAST,
}


class ModelSettings(NamedTuple):
    """The pooling, the length limit and the prompts in the configuration files of a model."""

    pooling: Pooling
    max_tokens: int
    query_prompt: str
    text_prompt: str


class ModelFiles(NamedTuple):
    """The files of a model and its settings.

    Attributes:
        weights: an ONNX network, or a static table in safetensors form.
    """

    weights: Path
    tokenizer: Path
    settings: ModelSettings


def find_model_files(folder: Path) -> ModelFiles:
    """Find the weights and the tokenizer in a folder and read the model's settings.

    Raises:
        ConfigError: the folder does not exist, holds no usable model, or holds one of an unsupported kind.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"there is no folder {str(folder)!r} with a search model; models are not downloaded, put it there"
        )
    weights = next((path for path in map(folder.joinpath, NETWORKS + TABLES) if path.is_file()), None)
    # The weights of a transformer are useless without its network.
    is_transformer = "num_hidden_layers" in _json_object(folder / "config.json")
    if weights is None or (weights == folder / "model.safetensors" and is_transformer):
        raise ConfigError(f"the folder {str(folder)!r} holds no model that search can use: {_NEEDED}")
    candidates = [place / "tokenizer.json" for place in (weights.parent, folder)]
    tokenizer = next((path for path in candidates if path.is_file()), None)
    if tokenizer is None:
        raise ConfigError(
            f"the model in {str(folder)!r} has no tokenizer.json; save its fast tokenizer there: "
            "AutoTokenizer.from_pretrained(MODEL).save_pretrained(FOLDER)"
        )
    return ModelFiles(weights, tokenizer, read_model_settings(folder))


def read_model_settings(folder: Path) -> ModelSettings:
    """Read the settings that `sentence-transformers` writes beside a model; defaults apply to what is missing.

    Raises:
        ConfigError: a file is not valid JSON, or the model uses a layer or pooling that is not supported.
    """
    prompts = _prompts(folder)
    limit = _json_object(folder / "sentence_bert_config.json").get("max_seq_length")
    return ModelSettings(
        pooling=_pooling(folder),
        max_tokens=min(limit, MAX_TOKENS) if isinstance(limit, int) and limit > 0 else MAX_TOKENS,
        query_prompt=prompts.get("query", ""),
        text_prompt=next((prompts[each] for each in ("document", "passage", "corpus") if each in prompts), ""),
    )


def _pooling(folder: Path) -> Pooling:
    layers = dict(_layers(folder))
    unsupported = [name for name in layers if name not in LAYERS]
    if unsupported:
        raise ConfigError(
            f"the model in {str(folder)!r} has a layer {unsupported[0]!r} after its network; use a model without one"
        )
    settings = _json_object(folder / layers.get("Pooling", "1_Pooling") / "config.json")
    name = settings.get("pooling_mode")
    if isinstance(name, str) and name in list(Pooling):
        return Pooling(name)
    chosen = [name for name, value in settings.items() if name.startswith("pooling_mode") and value]
    if len(chosen) > 1 or not all(each in POOLING_SWITCHES for each in chosen):
        raise ConfigError(
            f"the model in {str(folder)!r} has {' and '.join(chosen)} in its pooling; "
            f"use one with {', '.join(POOLING_SWITCHES)}"
        )
    return POOLING_SWITCHES[chosen[0]] if chosen else Pooling.MEAN


def _layers(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the type of each layer in `modules.json` and the folder of its settings."""
    modules = _json(folder / "modules.json")
    for each in modules if isinstance(modules, list) else ():
        if isinstance(each, dict):
            yield str(each.get("type", "")).rpartition(".")[2], str(each.get("path", ""))


def _prompts(folder: Path) -> dict[str, str]:
    settings = _json_object(folder / "config_sentence_transformers.json")
    prompts, default_name = settings.get("prompts"), settings.get("default_prompt_name")
    if not isinstance(prompts, dict):
        return {}
    texts = {name: text for name, text in prompts.items() if isinstance(text, str)}
    default = texts.get(default_name, "") if isinstance(default_name, str) else ""
    return {"query": default, "document": default, **texts} if default else texts


def _json_object(path: Path) -> JsonObject:
    found = _json(path)
    return found if isinstance(found, dict) else {}


def _json(path: Path) -> Json:
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise ConfigError(f"{str(path)!r} is not valid JSON: {error}; restore the model's own file") from error
