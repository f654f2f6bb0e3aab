"""How a model wants to be used: what its own settings say of pooling, prompts and length."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agenttool.errors import ConfigError
from agenttool.records import Json, JsonObject

LONGEST = 256
"""So many tokens of a text are read at most; a tool has said what it does by then."""

LAYERS = ("Transformer", "Pooling", "Normalize")
"""The layers that we know; whatever a model does, its vectors are made to have length one."""


class Pooling(StrEnum):
    """How what a network makes of the tokens becomes one vector."""

    MEAN = "mean"
    CLS = "cls"
    MAX = "max"
    LAST = "lasttoken"


SWITCHES = {
    "pooling_mode_mean_tokens": Pooling.MEAN,
    "pooling_mode_cls_token": Pooling.CLS,
    "pooling_mode_max_tokens": Pooling.MAX,
    "pooling_mode_lasttoken": Pooling.LAST,
}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a model was trained to be given, and what is to be made of its answer."""

    pooling: Pooling
    longest: int
    query_prompt: str
    text_prompt: str


def wishes_of(folder: Path) -> Wishes:
    """Read the settings that `sentence-transformers` leaves beside a model; what is not said is as with most models.

    Raises:
        ConfigError: a file is damaged, or the model works in a way we do not know.
    """
    prompts = _prompts(folder)
    told = settings_in(folder / "sentence_bert_config.json").get("max_seq_length")
    return Wishes(
        pooling=_pooling(folder),
        longest=min(told, LONGEST) if isinstance(told, int) and told > 0 else LONGEST,
        query_prompt=prompts.get("query", ""),
        text_prompt=next((prompts[each] for each in ("document", "passage", "corpus") if each in prompts), ""),
    )


def _pooling(folder: Path) -> Pooling:
    layers = dict(_layers(folder))
    strange = [name for name in layers if name not in LAYERS and name != "StaticEmbedding"]
    if strange:
        raise ConfigError(
            f"the model in {str(folder)!r} has a layer {strange[0]!r} after its network; use a model without one"
        )
    settings = settings_in(folder / layers.get("Pooling", "1_Pooling") / "config.json")
    named = settings.get("pooling_mode")
    if isinstance(named, str) and named in list(Pooling):
        return Pooling(named)
    chosen = [name for name, value in settings.items() if name.startswith("pooling_mode") and value]
    if len(chosen) > 1 or not all(each in SWITCHES for each in chosen):
        told = " and ".join(chosen)
        raise ConfigError(f"the model in {str(folder)!r} has {told} in its pooling; use one with {', '.join(SWITCHES)}")
    return SWITCHES[chosen[0]] if chosen else Pooling.MEAN


def _layers(folder: Path) -> Iterator[tuple[str, str]]:
    """Give the layers of a model, each with the folder of its settings."""
    listed = _parsed(folder / "modules.json")
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict):
            yield str(each.get("type", "")).rpartition(".")[2], str(each.get("path", ""))


def _prompts(folder: Path) -> dict[str, str]:
    """Read what has to be said before a query and before a text."""
    settings = settings_in(folder / "config_sentence_transformers.json")
    written, usual = settings.get("prompts"), settings.get("default_prompt_name")
    if not isinstance(written, dict):
        return {}
    prompts = {name: text for name, text in written.items() if isinstance(text, str)}
    always = prompts.get(usual, "") if isinstance(usual, str) else ""
    return {"query": always, "document": always, **prompts} if always else prompts


def settings_in(file: Path) -> JsonObject:
    """Read a file of settings; without the file there are none.

    Raises:
        ConfigError: it is damaged.
    """
    found = _parsed(file)
    return found if isinstance(found, dict) else {}


def _parsed(file: Path) -> Json:
    if not file.is_file():
        return None
    try:
        return json.loads(file.read_bytes())
    except ValueError as error:
        raise ConfigError(f"{str(file)!r} is no JSON: {error}; put the model's own file there") from error
