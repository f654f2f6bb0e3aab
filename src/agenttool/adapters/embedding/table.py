"""Static models: one vector per token, and the meaning of a text is the mean of its tokens'."""
# pyright: basic
# The libraries of an optional extra may be missing where types are checked.

import numpy as np
from safetensors.numpy import load_file

from agenttool.adapters.embedding.encoding import Encode, of_length_one
from agenttool.adapters.embedding.folder import Contents
from agenttool.adapters.embedding.tokens import open_tokenizer, unknown_token
from agenttool.errors import ConfigError

NAMES = ("embeddings", "embedding.weight")
"""What the table is called by `model2vec`, and by `sentence-transformers`."""


def table(contents: Contents) -> Encode:
    """Read a static model; tokens may share rows (`mapping`) and count differently (`weights`)."""
    file = contents.weights
    tensors = load_file(file)
    name = next((each for each in NAMES if each in tensors), None)
    if name is None:
        raise ConfigError(f"{str(file)!r} is no static model: it has no table named 'embeddings'; export it as ONNX")
    rows = tensors[name]
    of_length_one(rows)  # whatever is wrong with a row is told now, and not when a text has its token
    mapping, weights = tensors.get("mapping"), tensors.get("weights")
    tokenizer = open_tokenizer(contents)
    held = len(rows) if mapping is None else len(mapping)
    if tokenizer.get_vocab_size() > held:
        raise ConfigError(
            f"{str(contents.tokenizer)!r} knows {tokenizer.get_vocab_size()} tokens and {str(file)!r} has {held}; "
            "take both from the same model"
        )
    unknown = unknown_token(tokenizer)

    def meaning(tokens: list[int]) -> np.ndarray:
        ids = [each for each in tokens if each != unknown]
        if not ids:
            return np.zeros(rows.shape[1], np.float32)
        found = rows[ids if mapping is None else mapping[ids]].astype(np.float32)
        return (found if weights is None else found * weights[ids, None]).mean(axis=0)

    def encode(texts: list[str]) -> np.ndarray:
        read = tokenizer.encode_batch(texts, add_special_tokens=False)
        return of_length_one(np.stack([meaning(each.ids) for each in read]))

    return encode
