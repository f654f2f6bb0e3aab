"""Compute the vectors of tools in a background thread and compare queries with them."""
# pyright: basic
# The library of the optional extra may be missing where types are checked.

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import Event, Lock

from agenttool.adapters.embedding.model import EmbeddingModel

BATCH_SIZE = 32
"""How many texts are encoded together."""

CACHED_SENTENCES = 256
"""How many query sentences are cached with their vectors."""

FIRST_WAIT_S = 0.5
"""How long the search that loads the model waits for vectors; a static model encodes a few thousand texts meanwhile."""

_log = logging.getLogger("agenttool.search")


class EmbeddingIndex:
    """Implements `ports.semantic_index.SemanticIndex` with a model in this process.

    A model that is given as a function is loaded by the first search, in the thread of that search.
    """

    def __init__(
        self,
        model: EmbeddingModel | Callable[[], EmbeddingModel],
        folder: Path | None = None,
        *,
        can_read: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Start with no texts.

        Args:
            model: the model, or a function that loads it.
            folder: the folder of the file that caches vectors; None caches them in memory.
            can_read: returns whether the model understands a sentence; if it understands none, words are searched.
        """
        self._folder = folder
        self._can_read = can_read
        self._waiting: dict[int, str] = {}
        self._has_warned = False
        self._is_open = False
        self._is_stopped = False
        self._lock = Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="embedding")
        self._idle = Event()
        self._idle.set()
        if isinstance(model, EmbeddingModel):
            self._open(model)
        else:
            self._load = model

    def _open(self, model: EmbeddingModel) -> None:
        from agenttool.adapters.embedding.vectors import VectorCache, VectorTable  # noqa: PLC0415 -- it loads numpy

        self._model = model
        self._query_vector = lru_cache(CACHED_SENTENCES)(lambda sentence: model.encode_query([sentence])[0])
        self._table = VectorTable(model.dimensions)
        self._cache = VectorCache(self._folder)
        self._is_open = True

    def _load_once(self) -> None:
        """Load the model, unless it is loaded; if that fails, tools are found by words."""
        with self._lock:
            if self._is_open or self._is_stopped:
                return
            try:
                self._open(self._load())
            except Exception as error:  # noqa: BLE001 -- another version of a library may fail in any way
                _log.warning("the search model cannot be used (%s); tools are found by words", error)
                self._is_stopped = True
                self._waiting.clear()
            self._start_encoding()

    @property
    def pending(self) -> bool:
        """Whether texts wait to be encoded."""
        return bool(self._waiting)

    def put(self, number: int, text: str) -> None:
        """Add a text, or replace the one with this number; it is encoded in the background."""
        with self._lock:
            if self._is_open:
                self._table.remove(number)
            if not self._is_stopped:
                self._waiting[number] = text
                self._start_encoding()

    def _start_encoding(self) -> None:
        if self._is_open and self._waiting and self._idle.is_set():
            self._idle.clear()
            self._worker.submit(self._encode_waiting)

    def remove(self, number: int) -> None:
        """Remove a text, if there is one with this number."""
        with self._lock:
            if self._is_open:
                self._table.remove(number)
            self._waiting.pop(number, None)

    def _encode_waiting(self) -> None:
        """Encode batches until no text waits; after a failure, the other texts are found by words."""
        while texts := self._next_batch():
            try:
                rows = self._vectors(list(dict.fromkeys(texts.values())))
            except Exception as error:  # noqa: BLE001 -- a model may fail in any way; search works without it
                self._warn_once(error)
                with self._lock:
                    self._is_stopped = True
                    self._waiting.clear()
                continue
            with self._lock:
                for number, text in texts.items():
                    if self._waiting.get(number) is text:  # it was not replaced or removed meanwhile
                        del self._waiting[number]
                        self._table.put(number, rows[text])

    def _next_batch(self) -> dict[int, str]:
        with self._lock:
            texts = dict(islice(self._waiting.items(), BATCH_SIZE))
            if not texts:
                self._idle.set()
            return texts

    def _vectors(self, texts: list[str]) -> dict[str, bytes]:
        """Return the quantized vectors of texts, from the cache where possible."""
        keys = {text: self._model.content_key(text) for text in texts}
        cached = self._cache.find(keys.values())
        new = [text for text in texts if len(cached.get(keys[text], b"")) != self._model.dimensions]
        if new:
            made = {
                keys[text]: self._table.quantized(row) for text, row in zip(new, self._model.encode(new), strict=True)
            }
            self._cache.store(made)
            cached |= made
        return {text: cached[keys[text]] for text in texts}

    def _warn_once(self, error: Exception) -> None:
        """Log the first failure, without the text that caused it."""
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "the search model failed (%s); tools are found by words",
                type(error).__name__,
            )

    def wait(self, seconds: float) -> None:
        """Block until no text waits to be encoded, or until the time is over; loads the model first."""
        self._load_once()
        self._idle.wait(seconds)

    def encode_query(self, sentences: Sequence[str]) -> bool:
        """Encode the sentences of a query and return whether any has a vector; the first call loads the model."""
        if not self._is_open:
            self.wait(FIRST_WAIT_S)
        if not self._is_open or not any(map(self._can_read, sentences)):
            return False
        try:
            return any(self._query_vector(each).any() for each in sentences)
        except Exception as error:  # noqa: BLE001 -- as above
            self._warn_once(error)
            return False

    def nearest(self, sentence: str, limit: int) -> list[int]:
        """Return the texts most similar to a sentence, best first."""
        vector = self._query_vector(sentence)
        with self._lock:
            return self._table.nearest(vector, limit)

    def similarity(self, sentence: str, numbers: Collection[int]) -> Mapping[int, float]:
        """Return the cosine similarity of a sentence to the texts with these numbers."""
        vector = self._query_vector(sentence)
        with self._lock:
            return self._table.similarity(vector, list(numbers))

    def close(self) -> None:
        """Stop encoding; texts that are not encoded yet never are."""
        with self._lock:
            self._is_stopped = True
            self._waiting.clear()
        if self._is_open:
            self._worker.submit(self._cache.close)
        self._worker.shutdown(wait=False)
