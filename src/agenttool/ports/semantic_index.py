"""The port by which search asks an embedding model how similar texts are."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol


class SemanticIndex(Protocol):
    """Texts by number, compared by meaning.

    Texts are encoded in the background. Until a text is encoded, it is treated as absent. An implementation raises
    no errors of its model: a text that cannot be encoded stays absent, and the first failure is logged.
    """

    @property
    def pending(self) -> bool:
        """Whether texts wait to be encoded."""
        ...

    def put(self, number: int, text: str) -> None:
        """Add a text, or replace the one with this number; returns at once."""
        ...

    def remove(self, number: int) -> None:
        """Remove a text, if there is one with this number."""
        ...

    def wait(self, seconds: float) -> None:
        """Block until no text waits to be encoded, or until the time is over."""
        ...

    def encode_query(self, sentences: Sequence[str]) -> bool:
        """Encode the sentences of a query and return whether any has a vector; blocks while the model works."""
        ...

    def nearest(self, sentence: str, limit: int) -> list[int]:
        """Return the texts most similar to a sentence that was encoded before, best first."""
        ...

    def similarity(self, sentence: str, numbers: Collection[int]) -> Mapping[int, float]:
        """Return the similarity of such a sentence to these texts, from -1 to 1; absent texts are left out."""
        ...

    def close(self) -> None:
        """Stop encoding; texts that are not encoded yet never are."""
        ...
