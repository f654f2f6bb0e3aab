"""Vectors of texts, made in the background and kept by content."""
# pyright: basic
# The library of an optional extra may be missing where types are checked.

from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from threading import Event, Lock

import numpy as np

from agenttool.adapters.embedding.model import Encode

AT_ONCE = 64
"""How many texts are put to the model together."""

WAITED_FOR, PATIENCE_S = 512, 2.0
"""For so many texts a search waits, and so long at most."""

REMEMBERED = 256
"""How many queries are remembered."""


class Meanings:
    """Implements `ports.meaning.Meaning` on a model in this process."""

    def __init__(self, encode: Encode) -> None:
        """Begin with no texts."""
        self._encode = encode
        self._of_query = lru_cache(REMEMBERED)(lambda query: np.array(encode([query])[0], np.float32))
        self._contents: dict[int, bytes] = {}
        self._waiting: dict[bytes, str] = {}
        self._vectors: dict[bytes, np.ndarray] = {}
        self._table: tuple[list[int], np.ndarray] | None = None
        self._lock = Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="meanings")
        self._at_once = AT_ONCE
        self._idle = Event()
        self._idle.set()

    def put(self, number: int, text: str) -> None:
        """Take a text; its vector is made in the background, unless its content was met before."""
        content = sha256(text.encode()).digest()
        with self._lock:
            self._contents[number] = content
            self._table = None
            if content not in self._vectors:
                self._waiting[content] = text
                if self._idle.is_set():
                    self._begin()

    def remove(self, number: int) -> None:
        """Forget a number; what its text means is remembered, for it may come back."""
        with self._lock:
            if self._contents.pop(number, None) is not None:
                self._table = None

    def _begin(self) -> None:
        self._idle.clear()
        self._worker.submit(self._make).add_done_callback(self._ended)

    def _make(self) -> None:
        while True:
            with self._lock:
                texts = dict(islice(self._waiting.items(), self._at_once))
            if not texts:
                return
            vectors = self._encode(list(texts.values()))
            with self._lock:
                for content, vector in zip(texts, vectors, strict=True):
                    self._vectors[content] = np.array(vector, np.float32)
                    self._waiting.pop(content, None)
                self._table = None

    def _ended(self, work: "Future[None]") -> None:
        """Go on after a text that the model fails on: from then on one by one, to lose that one only."""
        with self._lock:
            if not work.cancelled() and work.exception() is not None:
                if self._at_once == 1:
                    self._waiting.pop(next(iter(self._waiting), b""), None)
                self._at_once = 1
            if self._waiting:
                self._begin()
            else:
                self._at_once = AT_ONCE
                self._idle.set()

    def settle(self) -> None:
        """Wait a moment for the last few; of more, a search makes do with those that are known."""
        if len(self._waiting) <= WAITED_FOR:
            self._idle.wait(PATIENCE_S)

    def nearest(self, query: str, limit: int) -> list[int]:
        """Compare a query with all texts."""
        numbers, table = self._known()
        if not numbers:
            return []
        near = table @ self._of_query(query)
        return [numbers[at] for at in np.argsort(-near, kind="stable")[:limit]]

    def likeness(self, query: str, numbers: Collection[int]) -> Mapping[int, float]:
        """Compare a query with some texts."""
        asked = self._of_query(query)
        with self._lock:
            known = {each: self._vectors.get(self._contents.get(each, b"")) for each in numbers}
        return {number: float(vector @ asked) for number, vector in known.items() if vector is not None}

    def _known(self) -> tuple[list[int], np.ndarray]:
        with self._lock:
            if self._table is None:
                numbers = [each for each, content in self._contents.items() if content in self._vectors]
                rows = [self._vectors[self._contents[each]] for each in numbers]
                self._table = numbers, np.stack(rows) if rows else np.zeros((0, 1), np.float32)
            return self._table

    def close(self) -> None:
        """End the work in the background; what is not known by now never will be."""
        with self._lock:
            self._waiting.clear()
        self._worker.shutdown(wait=False, cancel_futures=True)
