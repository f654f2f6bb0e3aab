"""The files of a model in a folder, as `sentence-transformers`, `model2vec` and `optimum` leave them."""

from dataclasses import dataclass
from pathlib import Path

from agenttool.adapters.embedding.wishes import Wishes, settings_in, wishes_of
from agenttool.errors import ConfigError

NETWORKS = (
    "model.onnx",
    "onnx/model.onnx",
    "model_optimized.onnx",
    "onnx/model_quantized.onnx",
    "model_quantized.onnx",
    "onnx/model_int8.onnx",
    "onnx/model_fp16.onnx",
)
"""Where a network may lie, the most faithful first."""

TABLES = ("0_StaticEmbedding/model.safetensors", "model.safetensors")

EXPORT = "export it first: optimum-cli export onnx --task feature-extraction --model FOLDER NEW_FOLDER"


@dataclass(frozen=True, slots=True)
class Contents:
    """The files of a model, and how it wants to be used.

    Attributes:
        weights: a network in ONNX form, or a static table.
    """

    weights: Path
    tokenizer: Path
    wishes: Wishes

    @property
    def is_network(self) -> bool:
        """Tell whether tokens go through a network; else each has a vector of its own."""
        return self.weights.suffix == ".onnx"


def look_into(folder: Path) -> Contents:
    """Find the files of a model and read its settings.

    Raises:
        ConfigError: there is no such folder, no model in it, or one that works in a way we do not know.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"there is no folder {str(folder)!r} with a model for search; nothing is downloaded, put it there"
        )
    weights = next((path for path in map(folder.joinpath, NETWORKS + TABLES) if path.is_file()), None)
    if weights is None or (weights == folder / "model.safetensors" and _is_transformer(folder)):
        raise ConfigError(f"the folder {str(folder)!r} holds no model that search can use: {_what_instead(folder)}")
    beside = [place / "tokenizer.json" for place in (weights.parent, folder)]
    tokenizer = next((path for path in beside if path.is_file()), None)
    if tokenizer is None:
        raise ConfigError(
            f"the model in {str(folder)!r} has no tokenizer.json; save its fast tokenizer there: "
            "AutoTokenizer.from_pretrained(MODEL).save_pretrained(FOLDER)"
        )
    return Contents(weights, tokenizer, wishes_of(folder))


def _is_transformer(folder: Path) -> bool:
    """Tell whether a table is one of many: weights of a transformer are nothing without its network."""
    return "num_hidden_layers" in settings_in(folder / "config.json")


def _what_instead(folder: Path) -> str:
    if (folder / "model.safetensors").is_file():
        return f"model.safetensors are the weights of a transformer without its network; {EXPORT}"
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
        return f"a pickle runs whatever it likes when it is opened, so it is not; {EXPORT}"
    strangers = sorted(path.name for pattern in ("*.onnx", "onnx/*.onnx") for path in folder.glob(pattern))
    if strangers:
        return f"it has {', '.join(strangers)}; name the one to use model.onnx"
    return "it needs tokenizer.json, and model.onnx (or onnx/model.onnx) or a static model.safetensors"
