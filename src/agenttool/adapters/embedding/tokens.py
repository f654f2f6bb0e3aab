"""Text to tokens, as a model's own `tokenizer.json` cuts it."""
# pyright: basic
# The libraries of an optional extra may be missing where types are checked.

import json

from tokenizers import Tokenizer

from agenttool.adapters.embedding.folder import Contents


def open_tokenizer(contents: Contents) -> Tokenizer:
    """Load a tokenizer; what it was saved with, such as padding to a fixed length, is not taken over."""
    tokenizer = Tokenizer.from_file(str(contents.tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(contents.wishes.longest)
    # Some remember thousands of whole texts, which takes 90 MB; here a text is cut once.
    if forget := getattr(tokenizer.model, "_resize_cache", None):
        forget(0)
    return tokenizer


def unknown_token(tokenizer: Tokenizer) -> int | None:
    """Give the token that stands for what is not known, which has no meaning."""
    model = json.loads(tokenizer.to_str())["model"]
    word = model.get("unk_token")
    return tokenizer.token_to_id(word) if isinstance(word, str) else model.get("unk_id")
