"""The embedding model of the package `wordllama`, which search uses if no other model is configured.

The package is not imported, because its loader may access a network; only the files in its wheel are read.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from agenttool.adapters.embedding.model_files import MAX_TOKENS, ModelFiles, ModelSettings, Pooling

if TYPE_CHECKING:
    from agenttool.adapters.embedding.embedding_index import EmbeddingIndex
    from agenttool.adapters.embedding.model import EmbeddingModel

_log = logging.getLogger("agenttool.search")

LIBRARIES = ("wordllama", "numpy", "safetensors", "tokenizers")
TABLE, TOKENIZER = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"

FIRST_WAIT_S = 0.5
"""How long the first search waits for the vectors of the tools; a few thousand are encoded in that time."""


def find_bundled_model() -> ModelFiles | None:
    """Return the files of the model, or None if the optional extra is not installed. Imports nothing."""
    specs = [find_spec(each) for each in LIBRARIES]
    if any(each is None for each in specs) or specs[0] is None:
        return None
    places = map(Path, specs[0].submodule_search_locations or ())
    found = next((each for each in places if (each / TABLE).is_file() and (each / TOKENIZER).is_file()), None)
    settings = ModelSettings(Pooling.MEAN, MAX_TOKENS, query_prompt="", text_prompt="")
    return None if found is None else ModelFiles(found / TABLE, found / TOKENIZER, settings)


class BundledIndex:
    """Implements `ports.semantic_index.SemanticIndex`; the first search loads the model in its thread."""

    def __init__(self, files: ModelFiles) -> None:
        """Take the files of the model. Nothing is loaded yet."""
        self._files = files
        self._index: EmbeddingIndex | None = None
        self._early: dict[int, str] = {}
        self._is_opened = False
        self._lock = Lock()

    @property
    def pending(self) -> bool:
        """Whether texts wait to be encoded."""
        return bool(self._early) if self._index is None else self._index.pending

    def put(self, number: int, text: str) -> None:
        """Add a text, or replace the one with this number."""
        with self._lock:
            if self._index is not None:
                self._index.put(number, text)
            elif not self._is_opened:
                self._early[number] = text

    def remove(self, number: int) -> None:
        """Remove a text, if there is one with this number."""
        with self._lock:
            self._early.pop(number, None)
            if self._index is not None:
                self._index.remove(number)

    def _opened(self) -> "EmbeddingIndex | None":
        """Load the model once; None if that fails, so that search works by words."""
        with self._lock:
            if not self._is_opened:
                self._is_opened = True
                try:
                    index = self._index = _open_index(self._files)
                    for number, text in self._early.items():
                        index.put(number, text)
                except Exception as error:  # noqa: BLE001 -- another version of the package may fail in any way
                    _log.warning("the search model of wordllama cannot be used (%s); tools are found by words", error)
                self._early.clear()
            return self._index

    def wait(self, seconds: float) -> None:
        """Block until no text waits to be encoded, or until the time is over."""
        index = self._opened()
        if index is not None:
            index.wait(seconds)

    def encode_query(self, sentences: Sequence[str]) -> bool:
        """Encode the sentences of a query and return whether any has a vector; the first call loads the model.

        A query in another script is searched by words: on a Chinese test set vectors cost 8 points of nDCG@10.
        """
        if not self._is_opened:
            self.wait(FIRST_WAIT_S)
        index = self._opened()
        return index is not None and any(map(_is_latin, sentences)) and index.encode_query(sentences)

    def nearest(self, sentence: str, limit: int) -> list[int]:
        """Return the texts most similar to a sentence that was encoded before, best first."""
        return [] if self._index is None else self._index.nearest(sentence, limit)

    def similarity(self, sentence: str, numbers: Collection[int]) -> Mapping[int, float]:
        """Return the similarity of such a sentence to these texts; absent texts are left out."""
        return {} if self._index is None else self._index.similarity(sentence, numbers)

    def close(self) -> None:
        """Stop encoding."""
        if self._index is not None:
            self._index.close()


def _is_latin(sentence: str) -> bool:
    """Return whether the model, which was trained on English, can read most of a sentence."""
    return 2 * sum(map(str.isascii, sentence)) >= len(sentence)


def _open_index(files: ModelFiles) -> "EmbeddingIndex":
    # The module loads numpy, which takes a tenth of a second.
    from agenttool.adapters.embedding.embedding_index import EmbeddingIndex  # noqa: PLC0415 -- see above

    return EmbeddingIndex(_load(files))


@cache
def _load(files: ModelFiles) -> "EmbeddingModel":
    """Load the model, once for all runtimes of the process."""
    from agenttool.adapters.embedding.model import load_model  # noqa: PLC0415 -- it loads numpy

    return load_model(files)
