"""Everything in this process: the reference that every other store must behave like."""

from collections.abc import Sequence
from itertools import islice

from agenttool.ports.facts import Fact
from agenttool.records import Digest, InvocationId

KEEP = 1_000_000
"""How many facts are kept before the oldest tenth is let go."""


class MemoryLog:
    """Facts in a list; the oldest go when there are too many, and a call goes with its last fact."""

    def __init__(self, *, keep: int = KEEP) -> None:
        """Take how many facts to keep."""
        self._facts: list[Fact] = []
        self._calls: dict[InvocationId, list[Fact]] = {}
        self._gone = 0
        self._keep = keep

    def begin(self, invocation_id: InvocationId, facts: list[Fact]) -> None:
        """Remember where the facts of a call will be."""
        self._calls[invocation_id] = facts

    def append(self, fact: Fact) -> None:
        """Keep one fact."""
        self._facts.append(fact)
        if len(self._facts) > self._keep:
            self._let_go(self._keep // 10 or 1)

    @property
    def last(self) -> int:
        """The position of the newest fact."""
        return self._gone + len(self._facts)

    def read(self, after: int, limit: int) -> Sequence[tuple[int, Fact]]:
        """Give facts after a position."""
        start = max(after - self._gone, 0)
        return list(enumerate(islice(self._facts, start, start + limit), self._gone + start + 1))

    def facts_of(self, invocation_id: InvocationId) -> Sequence[Fact]:
        """Give the facts of one call."""
        return tuple(self._calls.get(invocation_id, ()))

    def _let_go(self, count: int) -> None:
        for fact in self._facts[:count]:
            end = fact.step.last
            if end is not None and end.is_terminal and fact.invocation_id is not None:
                self._calls.pop(fact.invocation_id, None)
        del self._facts[:count]
        self._gone += count


class MemoryPayloads:
    """Bytes in a dictionary."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._bytes: dict[Digest, bytes] = {}

    async def put(self, data: bytes, digest: Digest) -> str:
        """Keep bytes."""
        self._bytes.setdefault(digest, data)
        return f"payload:{digest}"

    async def get(self, digest: Digest, *, start: int = 0, length: int | None = None) -> bytes | None:
        """Give bytes or a range of them."""
        data = self._bytes.get(digest)
        if data is None:
            return None
        return data[start:] if length is None else data[start : start + length]

    def drop(self, digest: Digest) -> None:
        """Let bytes go, as retention does."""
        self._bytes.pop(digest, None)
