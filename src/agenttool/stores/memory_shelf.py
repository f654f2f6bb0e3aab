"""Small documents in this process: the reference."""

from collections.abc import Mapping, Sequence
from heapq import nsmallest


class MemoryShelf:
    """Documents in a dictionary."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._kinds: dict[str, dict[str, bytes]] = {}

    async def get(self, kind: str, key: str) -> bytes | None:
        """Give a document."""
        return self._kinds.get(kind, {}).get(key)

    async def put(self, kind: str, key: str, body: bytes | None) -> None:
        """Put a document."""
        documents = self._kinds.setdefault(kind, {})
        if body is None:
            documents.pop(key, None)
        else:
            documents[key] = body

    async def swap(
        self,
        kind: str,
        key: str,
        *,
        before: bytes | None,
        after: bytes | None,
        beside: Mapping[tuple[str, str], bytes] | None = None,
    ) -> bool:
        """Put a document if nobody was quicker."""
        if await self.get(kind, key) != before:
            return False
        await self.put(kind, key, after)
        for place, body in (beside or {}).items():
            await self.put(*place, body)
        return True

    async def page(self, kind: str, *, prefix: str = "", after: str = "", limit: int) -> Sequence[tuple[str, bytes]]:
        """Give documents in the order of their keys."""
        documents = self._kinds.get(kind, {})
        keys = nsmallest(limit, (key for key in documents if key.startswith(prefix) and key > after))
        return [(key, documents[key]) for key in keys]

    async def keys(self, kind: str, *, prefix: str = "", limit: int) -> Sequence[str]:
        """Give keys in order."""
        return nsmallest(limit, (key for key in self._kinds.get(kind, {}) if key.startswith(prefix)))
