"""A shelf of small documents: what an adapter must remember from one process to the next."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Shelf(Protocol):
    """Small documents by kind and key, for as long as the store lasts; what was put is kept once `put` has returned.

    Several processes may use one shelf. `swap` is how two of them agree on who was first.
    """

    async def get(self, kind: str, key: str) -> bytes | None:
        """Give a document; none if there is none."""
        ...

    async def put(self, kind: str, key: str, body: bytes | None) -> None:
        """Put a document in the place of the one before; none takes it away.

        Raises:
            StoreError: it could not be kept.
        """
        ...

    async def swap(
        self,
        kind: str,
        key: str,
        *,
        before: bytes | None,
        after: bytes | None,
        beside: Mapping[tuple[str, str], bytes] | None = None,
    ) -> bool:
        """Put a document only if the one there is still the one that was seen; tell whether it was.

        Documents `beside` it, by kind and key, are put in the same step: all of them are kept, or none is.

        Raises:
            StoreError: it could not be kept.
        """
        ...

    async def page(self, kind: str, *, prefix: str = "", after: str = "", limit: int) -> Sequence[tuple[str, bytes]]:
        """Give documents whose keys begin so, in the order of their keys, from after one of them."""
        ...

    async def keys(self, kind: str, *, prefix: str = "", limit: int) -> Sequence[str]:
        """Give the first keys that begin so, in order, and leave their documents where they are."""
        ...
