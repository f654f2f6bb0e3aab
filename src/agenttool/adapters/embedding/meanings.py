"""What texts mean to a model, found out in the background."""
# pyright: basic
# The library of an optional extra may be missing where types are checked.

import logging
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import Event, Lock

from agenttool.adapters.embedding.kept import Kept, content_of
from agenttool.adapters.embedding.model import Model
from agenttool.adapters.embedding.rows import Rows, shortened

AT_ONCE = 32
"""How many texts are put to the model together."""

REMEMBERED = 256
"""How many sentences of queries are remembered."""

HOPELESS = 3
"""After so many texts in a row that a model fails on one by one, it is asked no more."""

_log = logging.getLogger("agenttool.search")


class Meanings:
    """Implements `ports.meaning.Meaning` on a model in this process."""

    def __init__(self, model: Model, folder: Path | None = None) -> None:
        """Begin with no texts; what is found out is kept in a folder, if there is one."""
        self._model = model
        self._heard = lru_cache(REMEMBERED)(lambda sentence: model.ask([sentence])[0])
        self._rows = Rows(model.dimensions)
        self._kept = Kept(folder)
        self._waiting: dict[int, str] = {}
        self._failed = 0
        self._told = False
        self._over = False
        self._lock = Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="meanings")
        self._idle = Event()
        self._idle.set()

    @property
    def pending(self) -> bool:
        """Tell whether texts are still to be read."""
        return bool(self._waiting)

    def put(self, number: int, text: str) -> None:
        """Take a text; its vector is made in the background, unless its content was met before."""
        with self._lock:
            self._rows.drop(number)
            if self._over:
                return
            self._waiting[number] = text
            if self._idle.is_set():
                self._idle.clear()
                self._worker.submit(self._work)

    def remove(self, number: int) -> None:
        """Forget a number."""
        with self._lock:
            self._rows.drop(number)
            self._waiting.pop(number, None)

    def _work(self) -> None:
        """Read what waits, until nothing does."""
        at_once = AT_ONCE
        while texts := self._next(at_once):
            try:
                rows = self._read(list(dict.fromkeys(texts.values())))
            except Exception as error:  # noqa: BLE001 -- a model may fail in any way, and search goes on without it
                self._fails(error)
                if at_once == 1:
                    self._give_up(texts)
                at_once = 1  # to lose no other text
                continue
            self._failed, at_once = 0, AT_ONCE
            with self._lock:
                for number, text in texts.items():
                    if self._waiting.get(number) is text:  # else it was replaced or removed meanwhile
                        del self._waiting[number]
                        self._rows.put(number, rows[text])

    def _next(self, count: int) -> dict[int, str]:
        with self._lock:
            texts = dict(islice(self._waiting.items(), count))
            if not texts:
                self._idle.set()
            return texts

    def _read(self, texts: list[str]) -> dict[str, bytes]:
        """Look texts up, and put the others to the model."""
        contents = {text: content_of(self._model.name, text) for text in texts}
        known = self._kept.find(contents.values())
        new = [text for text in texts if len(known.get(contents[text], b"")) != self._model.dimensions]
        if new:
            made = {contents[text]: shortened(row) for text, row in zip(new, self._model.encode(new), strict=True)}
            self._kept.keep(made)
            known |= made
        return {text: known[contents[text]] for text in texts}

    def _fails(self, error: Exception) -> None:
        """Tell the first failure, and no other; what was read is not told, for it is not ours to tell."""
        if not self._told:
            self._told = True
            _log.warning(
                "the search model failed (%s); what it cannot read is found by words alone", type(error).__name__
            )

    def _give_up(self, texts: Collection[int]) -> None:
        with self._lock:
            self._failed += 1
            self._over = self._failed >= HOPELESS
            for each in list(self._waiting) if self._over else texts:
                self._waiting.pop(each, None)

    def settle(self, seconds: float) -> None:
        """Wait until everything is read, but no longer than so many seconds."""
        self._idle.wait(seconds)

    def listen(self, sentences: Sequence[str]) -> bool:
        """Read what is asked for; tell whether it means anything to the model."""
        try:
            return any(self._heard(each).any() for each in sentences)
        except Exception as error:  # noqa: BLE001 -- as above
            self._fails(error)
            return False

    def nearest(self, sentence: str, limit: int) -> list[int]:
        """Compare a sentence with all texts."""
        asked = self._heard(sentence)
        with self._lock:
            return self._rows.nearest(asked, limit)

    def likeness(self, sentence: str, numbers: Collection[int]) -> Mapping[int, float]:
        """Compare a sentence with some texts."""
        asked = self._heard(sentence)
        with self._lock:
            return self._rows.likeness(asked, list(numbers))

    def close(self) -> None:
        """End the work in the background; what is not known by now never will be."""
        with self._lock:
            self._over = True
            self._waiting.clear()
        self._worker.submit(self._kept.close)
        self._worker.shutdown(wait=False)
