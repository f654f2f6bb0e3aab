"""Everything in this process: the reference that every other store must behave like."""

import hashlib
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from itertools import islice

from agenttool.errors import StoreError
from agenttool.ports.facts import Fact
from agenttool.records import Digest, InvocationId

KEEP = 1_000_000
"""How many facts are kept before the oldest tenth is let go."""

KEEP_CHARS = 256_000_000
"""How many characters of inputs and results are kept before the oldest large ones are let go."""

_LARGE = 4096


class MemoryLog:
    """Facts in a list; the oldest go when there are too many or too large, those of calls under way excepted.

    Which facts belong to a call is worked out when somebody asks: most calls are never asked about.
    """

    durable = False

    def __init__(self, *, keep: int = KEEP, keep_chars: int = KEEP_CHARS) -> None:
        """Take how much to keep."""
        self._facts: list[Fact] = []
        self._gone = 0
        self._keep = keep
        self._keep_chars = keep_chars
        self._chars = 0
        self._large: deque[tuple[int, int]] = deque()
        self._carried: dict[InvocationId, list[Fact]] = {}
        self._index: dict[InvocationId, list[Fact]] = {}
        self._indexed = 0

    @property
    def append(self) -> Callable[[Fact], None]:
        """Keeps one fact."""
        return self._facts.append

    @property
    def last(self) -> int:
        """The position of the newest fact."""
        return self._gone + len(self._facts)

    async def settle(self) -> None:
        """Return at once: what is in memory is as safe as it will ever be."""

    def ended(self, chars: int) -> None:
        """Let old facts go if there are too many, or if they are too large."""
        if chars > _LARGE:
            self._chars += chars
            self._large.append((self.last, chars))
            self._let_large_go()
        if len(self._facts) > self._keep:
            self._let_go(len(self._facts) - self._keep + self._keep // 10)

    def read(self, after: int, limit: int) -> Sequence[tuple[int, Fact]]:
        """Give facts after a position."""
        start = max(after - self._gone, 0)
        return list(enumerate(islice(self._facts, start, start + limit), self._gone + start + 1))

    def facts_of(self, invocation_id: InvocationId) -> Sequence[Fact]:
        """Give the facts of one call."""
        for fact in islice(self._facts, self._indexed - self._gone, None):
            if fact.invocation_id is not None:
                self._index.setdefault(fact.invocation_id, []).append(fact)
        self._indexed = self.last
        return (*self._carried.get(invocation_id, ()), *self._index.get(invocation_id, ()))

    kept_of = facts_of

    def _let_large_go(self) -> None:
        upto = self._gone
        while self._chars > self._keep_chars and len(self._large) > 1:
            upto, chars = self._large.popleft()
            self._chars -= chars
        self._let_go(upto - self._gone)

    def _let_go(self, count: int) -> None:
        """Forget the oldest facts; the early ones of a call whose end is not among them are carried along."""
        if count <= 0:
            return
        for fact in islice(self._facts, count):
            if fact.invocation_id is not None:
                self._carried.setdefault(fact.invocation_id, []).append(fact)
                end = fact.step.last
                if end is not None and end.is_terminal:
                    del self._carried[fact.invocation_id]
        del self._facts[:count]
        self._gone += count
        self._index.clear()
        self._indexed = self._gone


class MemoryPayloads:
    """Bytes in a dictionary."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._bytes: dict[Digest, bytes] = {}
        self._put_at: dict[Digest, int] = {}

    async def put(self, data: bytes, digest: Digest) -> str:
        """Keep bytes."""
        self._bytes.setdefault(digest, data)
        self._put_at[digest] = time.time_ns()
        return f"payload:{digest}"

    async def put_stream(self, chunks: AsyncIterable[bytes]) -> tuple[Digest, int]:
        """Keep bytes as they come."""
        data = b"".join([chunk async for chunk in chunks])
        digest = Digest("sha256:" + hashlib.sha256(data).hexdigest())
        await self.put(data, digest)
        return digest, len(data)

    async def get(self, digest: Digest, *, start: int = 0, length: int | None = None) -> bytes | None:
        """Give bytes or a range of them."""
        data = self._bytes.get(digest)
        if data is None:
            return None
        return data[start:] if length is None else data[start : start + length]

    async def stream(self, digest: Digest) -> AsyncIterator[bytes]:
        """Give bytes in one piece."""
        data = await self.get(digest)
        if data is None:
            raise StoreError(f"the payload {digest!r} is not there; it may have expired")
        yield data

    async def expire(self, before_ns: int) -> int:
        """Let go of what nobody has put since."""
        old = [digest for digest, put_at in self._put_at.items() if put_at < before_ns]
        for digest in old:
            self.drop(digest)
        return len(old)

    def drop(self, digest: Digest) -> None:
        """Let bytes go, as retention does."""
        self._bytes.pop(digest, None)
        self._put_at.pop(digest, None)
