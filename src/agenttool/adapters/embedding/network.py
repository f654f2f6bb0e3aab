"""Transformers in ONNX form: the meaning of a text is pooled from what the network makes of its tokens."""
# pyright: basic
# The libraries of an optional extra may be missing where types are checked.

import numpy as np
import onnxruntime

from agenttool.adapters.embedding.encoding import Encode, of_length_one
from agenttool.adapters.embedding.folder import Contents
from agenttool.adapters.embedding.tokens import open_tokenizer
from agenttool.adapters.embedding.wishes import Pooling
from agenttool.errors import ConfigError

TAKEN = ("input_ids", "attention_mask", "token_type_ids")
POOLED = "sentence_embedding"
"""What an export calls a vector that it has pooled itself."""

QUIET = 3
"""What onnxruntime is to tell: errors, and no advice."""


def network(contents: Contents) -> Encode:
    """Read a transformer; it works in one thread, for others have work to do, too."""
    file = contents.weights
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = QUIET
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    wanted = [each.name for each in session.get_inputs()]
    strange = sorted(set(wanted) - set(TAKEN))
    if strange:
        raise ConfigError(
            f"{str(file)!r} asks for {', '.join(strange)}; use the network of a sentence model, which takes input_ids"
        )
    given = [each.name for each in session.get_outputs()]
    output = POOLED if POOLED in given else given[0]
    tokenizer = open_tokenizer(contents)
    tokenizer.enable_padding(**_padding(tokenizer))

    def encode(texts: list[str]) -> np.ndarray:
        read = tokenizer.encode_batch(texts)
        mask = np.array([each.attention_mask for each in read], np.int64)
        said = {
            "input_ids": np.array([each.ids for each in read], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([each.type_ids for each in read], np.int64),
        }
        made = np.asarray(session.run([output], {name: said[name] for name in wanted})[0], np.float32)
        return of_length_one(made if made.ndim == 2 else _pooled(made, mask, contents.wishes.pooling))  # noqa: PLR2004 -- texts, dimensions

    return encode


def _padding(tokenizer) -> dict[str, int | str]:  # noqa: ANN001 -- a type of the optional extra
    """Pad with the token that the model was trained with, if its name is a usual one; the mask hides it anyway."""
    found = ((word, tokenizer.token_to_id(word)) for word in ("[PAD]", "<pad>", "<|endoftext|>"))
    return next(({"pad_token": word, "pad_id": at} for word, at in found if at is not None), {})


def _pooled(made: np.ndarray, mask: np.ndarray, pooling: Pooling) -> np.ndarray:
    """Make one vector of those of the tokens; padding counts for nothing."""
    match pooling:
        case Pooling.MEAN:
            shown = mask[:, :, None].astype(np.float32)
            return (made * shown).sum(axis=1) / np.maximum(shown.sum(axis=1), 1)
        case Pooling.CLS:
            return made[:, 0]
        case Pooling.MAX:
            return np.where(mask[:, :, None] > 0, made, -np.inf).max(axis=1)
        case Pooling.LAST:
            last = mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)
            return made[np.arange(len(made)), last]
