"""Encode texts as unit vectors, with an ONNX network or a static table of token vectors."""
# pyright: basic
# The libraries of the optional extra may be missing where types are checked.

import json
from collections.abc import Callable

import numpy as np
from tokenizers import Tokenizer

from agenttool.adapters.embedding.model_files import ModelFiles, Pooling
from agenttool.errors import ConfigError

Encode = Callable[[list[str]], np.ndarray]
"""Returns one row of length one for each text."""

NETWORK_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
POOLED_OUTPUT = "sentence_embedding"
"""The output of an exported network that does its own pooling."""

ERRORS_ONLY = 3
"""The log level of onnxruntime that suppresses warnings."""

TABLE_NAMES = ("embeddings", "embedding.weight")
"""The tensor with the token vectors, as `model2vec` and `sentence-transformers` name it."""


def open_encoder(files: ModelFiles) -> Encode:
    """Load the weights of a model.

    Raises:
        ConfigError: the files do not fit together, or the network takes unsupported inputs.
        ModuleNotFoundError: a library of the optional extra is not installed.
    """
    return _open_network(files) if files.weights.suffix == ".onnx" else _open_table(files)


def _open_network(files: ModelFiles) -> Encode:
    import onnxruntime  # noqa: PLC0415 -- static tables do not need it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # it runs beside the event loop
    options.log_severity_level = ERRORS_ONLY
    session = onnxruntime.InferenceSession(str(files.weights), options, providers=["CPUExecutionProvider"])
    inputs = [each.name for each in session.get_inputs()]
    unsupported = sorted(set(inputs) - set(NETWORK_INPUTS))
    if unsupported:
        raise ConfigError(
            f"{str(files.weights)!r} asks for {', '.join(unsupported)}; "
            "use the network of a sentence model, which takes input_ids"
        )
    outputs = [each.name for each in session.get_outputs()]
    output = POOLED_OUTPUT if POOLED_OUTPUT in outputs else outputs[0]
    tokenizer = _open_tokenizer(files)
    tokenizer.enable_padding(**_padding(tokenizer))

    def encode(texts: list[str]) -> np.ndarray:
        encodings = tokenizer.encode_batch(texts)
        mask = np.array([each.attention_mask for each in encodings], np.int64)
        tensors = {
            "input_ids": np.array([each.ids for each in encodings], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([each.type_ids for each in encodings], np.int64),
        }
        made = np.asarray(session.run([output], {name: tensors[name] for name in inputs})[0], np.float32)
        return _normalized(made if made.ndim == 2 else _pool(made, mask, files.settings.pooling))  # noqa: PLR2004 -- texts, dimensions

    return encode


def _padding(tokenizer: Tokenizer) -> dict[str, int | str]:
    """Return the padding token of the model, if it has a common name. The attention mask hides padding anyway."""
    found = ((word, tokenizer.token_to_id(word)) for word in ("[PAD]", "<pad>", "<|endoftext|>"))
    return next(({"pad_token": word, "pad_id": at} for word, at in found if at is not None), {})


def _pool(vectors: np.ndarray, mask: np.ndarray, pooling: Pooling) -> np.ndarray:
    """Reduce the token vectors of each text to one vector; padding is ignored."""
    match pooling:
        case Pooling.MEAN:
            present = mask[:, :, None].astype(np.float32)
            return (vectors * present).sum(axis=1) / np.maximum(present.sum(axis=1), 1)
        case Pooling.CLS:
            return vectors[:, 0]
        case Pooling.MAX:
            return np.where(mask[:, :, None] > 0, vectors, -np.inf).max(axis=1)
        case Pooling.LAST:
            last = mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)
            return vectors[np.arange(len(vectors)), last]


def _open_table(files: ModelFiles) -> Encode:
    """Load a static model. Tokens may share rows (`mapping`) and have different weights (`weights`)."""
    from safetensors.numpy import load_file  # noqa: PLC0415 -- networks do not need it

    tensors = load_file(files.weights)
    name = next((each for each in TABLE_NAMES if each in tensors), None)
    if name is None:
        raise ConfigError(
            f"{str(files.weights)!r} is no static model: it has no table named 'embeddings'; export it as ONNX"
        )
    rows = tensors[name]
    _normalized(rows)  # rejects a damaged row now, not when a text contains its token
    mapping, weights = tensors.get("mapping"), tensors.get("weights")
    tokenizer = _open_tokenizer(files)
    size = len(rows) if mapping is None else len(mapping)
    if tokenizer.get_vocab_size() > size:
        raise ConfigError(
            f"{str(files.tokenizer)!r} knows {tokenizer.get_vocab_size()} tokens and {str(files.weights)!r} has "
            f"{size}; take both from the same model"
        )
    unknown = _unknown_token(tokenizer)

    def mean(tokens: list[int]) -> np.ndarray:
        ids = [each for each in tokens if each != unknown]
        if not ids:
            return np.zeros(rows.shape[1], np.float32)
        found = rows[ids if mapping is None else mapping[ids]].astype(np.float32)
        return (found if weights is None else found * weights[ids, None]).mean(axis=0)

    def encode(texts: list[str]) -> np.ndarray:
        encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
        return _normalized(np.stack([mean(each.ids) for each in encodings]))

    return encode


def _open_tokenizer(files: ModelFiles) -> Tokenizer:
    """Load the tokenizer without the padding and truncation that it was saved with."""
    tokenizer = Tokenizer.from_file(str(files.tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(files.settings.max_tokens)
    # Some tokenizers cache thousands of whole texts, which takes 90 MB. Here each text is encoded once.
    if resize_cache := getattr(tokenizer.model, "_resize_cache", None):
        resize_cache(0)
    return tokenizer


def _unknown_token(tokenizer: Tokenizer) -> int | None:
    """Return the id of the token for unknown words, whose vector carries no meaning."""
    model = json.loads(tokenizer.to_str())["model"]
    word = model.get("unk_token")
    return tokenizer.token_to_id(word) if isinstance(word, str) else model.get("unk_id")


def _normalized(rows: np.ndarray) -> np.ndarray:
    """Scale every row to length one; a zero row stays zero.

    Raises:
        ValueError: a value is NaN or infinite.
    """
    lengths = np.linalg.norm(rows.astype(np.float32), axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise ValueError("its vectors contain NaN or infinity")
    return rows.astype(np.float32) / np.maximum(lengths, 1e-9)
