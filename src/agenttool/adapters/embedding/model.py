"""A folder with a model becomes a function from texts to vectors of length one.

Two kinds are read: static models, a table of one vector per token (`model.safetensors`), and transformers in ONNX
form (`model.onnx` or `onnx/model.onnx`). Both bring their `tokenizer.json`.
"""
# pyright: basic
# The libraries of an optional extra may be missing where types are checked, and some have no types.

from collections.abc import Callable
from pathlib import Path

from agenttool.errors import ConfigError

Encode = Callable[[list[str]], list[list[float]]]

LONGEST = 256
"""So many tokens of a text are read; a tool has said what it does by then."""

EXTRA = "install it with: pip install 'agenttool[semantic]'"


def open_model(folder: Path) -> Encode:
    """Load the model of a folder, and try it.

    Raises:
        ConfigError: there is no such folder or no model in it, or the optional extra is not installed.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"there is no folder {str(folder)!r} with a model for search; nothing is downloaded, put it there"
        )
    tokenizer = folder / "tokenizer.json"
    networks = [path for path in (folder / "model.onnx", folder / "onnx" / "model.onnx") if path.is_file()]
    table = folder / "model.safetensors"
    if not tokenizer.is_file() or not (networks or table.is_file()):
        raise ConfigError(
            f"the folder {str(folder)!r} holds no model that search can use; "
            "it needs tokenizer.json, and model.onnx or a static model.safetensors"
        )
    try:
        encode = _network(networks[0], tokenizer) if networks else _table(table, tokenizer)
    except ModuleNotFoundError as error:
        raise ConfigError(f"searching by meaning needs {error.name!r}, which is not installed; {EXTRA}") from error
    except Exception as error:  # the libraries raise whatever they like
        raise ConfigError(f"the model in {str(folder)!r} cannot be loaded: {error}; use another") from error
    return encode


def _table(file: Path, tokenizer_file: Path) -> Encode:
    """Read a static model: the meaning of a text is the mean of its tokens'."""
    import numpy as np  # noqa: PLC0415 -- an optional extra
    from safetensors.numpy import load_file  # noqa: PLC0415 -- an optional extra

    tensors = load_file(file)
    name = "embeddings" if "embeddings" in tensors else "embedding.weight"
    if name not in tensors:
        raise ConfigError(f"{str(file)!r} is no static model: it has no table named 'embeddings'; export it as ONNX")
    table = tensors[name].astype(np.float32)
    tokenizer = _tokenizer(tokenizer_file)

    def encode(texts: list[str]) -> list[list[float]]:
        rows = [each.ids for each in tokenizer.encode_batch(texts, add_special_tokens=False)]
        means = [table[ids].mean(axis=0) if ids else np.zeros(table.shape[1], np.float32) for ids in rows]
        return _of_length_one(np.stack(means))

    return _tried(encode)


def _network(file: Path, tokenizer_file: Path) -> Encode:
    """Read a transformer: the meaning of a text is the mean of what it makes of the tokens."""
    import numpy as np  # noqa: PLC0415 -- an optional extra
    import onnxruntime  # noqa: PLC0415 -- an optional extra

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    taken = {each.name for each in session.get_inputs()}
    tokenizer = _tokenizer(tokenizer_file)
    tokenizer.enable_padding()

    def encode(texts: list[str]) -> list[list[float]]:
        read = tokenizer.encode_batch(texts)
        given = {
            "input_ids": np.array([each.ids for each in read], np.int64),
            "attention_mask": np.array([each.attention_mask for each in read], np.int64),
            "token_type_ids": np.array([each.type_ids for each in read], np.int64),
        }
        output = np.asarray(session.run(None, {name: value for name, value in given.items() if name in taken})[0])
        if output.ndim == 3:  # noqa: PLR2004 -- texts, tokens, dimensions: not pooled yet
            mask = given["attention_mask"][:, :, None]
            output = (output * mask).sum(axis=1) / np.maximum(mask.sum(axis=1), 1)
        return _of_length_one(output)

    return _tried(encode)


def _tokenizer(file: Path):  # noqa: ANN202 -- a type of the optional extra
    from tokenizers import Tokenizer  # noqa: PLC0415 -- an optional extra

    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.enable_truncation(LONGEST)
    return tokenizer


def _of_length_one(rows) -> list[list[float]]:  # noqa: ANN001 -- a type of the optional extra
    import numpy as np  # noqa: PLC0415 -- an optional extra

    return (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)).tolist()


def _tried(encode: Encode) -> Encode:
    """Let a model that does not work fail now, and not in the background."""
    encode(["read a file", "a"])
    return encode
