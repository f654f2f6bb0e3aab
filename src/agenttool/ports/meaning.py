"""What search asks of a model that knows what texts mean."""

from collections.abc import Collection, Mapping
from typing import Protocol


class Meaning(Protocol):
    """Texts by number, each with a place in a space of meanings.

    Places are found in the background: a text that was put is known a little later, and until then it is as if it
    were not there. The same text is never looked at twice.
    """

    def put(self, number: int, text: str) -> None:
        """Take a text, or replace the one with this number; returns at once."""
        ...

    def remove(self, number: int) -> None:
        """Forget a text, if it is there."""
        ...

    def settle(self) -> None:
        """Wait for texts that are about to be known, if they are few; blocks for a moment at most."""
        ...

    def nearest(self, query: str, limit: int) -> list[int]:
        """Give the numbers of the texts that mean most nearly what a query means, the nearest first."""
        ...

    def likeness(self, query: str, numbers: Collection[int]) -> Mapping[int, float]:
        """Tell how near these texts are to a query, from -1 to 1; of those not known yet, nothing."""
        ...

    def close(self) -> None:
        """End the work in the background; what is not known by now never will be."""
        ...
