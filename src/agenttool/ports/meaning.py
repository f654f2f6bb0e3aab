"""What search asks of a model that knows what texts mean."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol


class Meaning(Protocol):
    """Texts by number, each with a place in a space of meanings.

    Places are found in the background: a text that was put is known a little later, and until then it is as if it
    were not there. The same text is never looked at twice. A model that fails is no error: what it cannot read is
    not there, and that it failed is told once, in the log.
    """

    @property
    def pending(self) -> bool:
        """Tell whether texts are still to be read."""
        ...

    def put(self, number: int, text: str) -> None:
        """Take a text, or replace the one with this number; returns at once."""
        ...

    def remove(self, number: int) -> None:
        """Forget a text, if it is there."""
        ...

    def settle(self, seconds: float) -> None:
        """Block until all texts are read, but no longer than so many seconds."""
        ...

    def listen(self, sentences: Sequence[str]) -> bool:
        """Read a query by its sentences and tell whether it means anything; blocks for as long as a model thinks."""
        ...

    def nearest(self, sentence: str, limit: int) -> list[int]:
        """Give the texts that mean most nearly what a sentence means that was listened to, the nearest first."""
        ...

    def likeness(self, sentence: str, numbers: Collection[int]) -> Mapping[int, float]:
        """Tell how near these texts are to such a sentence, from -1 to 1; of those not known yet, nothing."""
        ...

    def close(self) -> None:
        """End the work in the background; what is not known by now never will be."""
        ...
