"""Stores in memory: the reference implementations, and the stores of a runtime without a file."""

import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from heapq import nsmallest
from itertools import islice

from agenttool.errors import StoreError
from agenttool.ports.deferred import AnswerStatus
from agenttool.ports.facts import Fact
from agenttool.ports.stores import DocumentStore, OpenCall, RecordedAnswer, Reservation, SavedCheckpoint
from agenttool.ports.world import Moment
from agenttool.records import ApprovalId, Digest, InvocationId, replace

MAX_FACTS = 1_000_000
"""With more facts than this, the oldest tenth is dropped."""

MAX_CHARS = 256_000_000
"""With more characters of inputs and results than this, the oldest large ones are dropped."""

MAX_KEYS = MAX_FACTS
"""With more reserved keys than this, the oldest is dropped. Its call has a fact, which is dropped then, too."""

_LARGE = 4096


class MemoryLog:
    """Facts in a list. The oldest are dropped when there are too many or too large, except those of open calls.

    The index by call is built on the first read: most calls are never read.
    """

    durable = False

    def __init__(self, *, max_facts: int = MAX_FACTS, max_chars: int = MAX_CHARS) -> None:
        self._facts: list[Fact] = []
        self._dropped = 0
        self._max_facts = max_facts
        self._max_chars = max_chars
        self._chars = 0
        self._large: deque[tuple[int, int]] = deque()
        self._open: dict[InvocationId, list[Fact]] = {}
        self._index: dict[InvocationId, list[Fact]] = {}
        self._indexed = 0

    @property
    def append(self) -> Callable[[Fact], None]:
        """The function that appends one fact."""
        return self._facts.append

    @property
    def last(self) -> int:
        """The position of the newest fact."""
        return self._dropped + len(self._facts)

    async def settle(self) -> None:
        """Return at once: there is nothing to write."""

    def ended(self, chars: int) -> None:
        """Drop old facts if there are too many, or if they are too large."""
        if chars > _LARGE:
            self._chars += chars
            self._large.append((self.last, chars))
            self._drop_large()
        if len(self._facts) > self._max_facts:
            self._drop(len(self._facts) - self._max_facts + self._max_facts // 10)

    def read(self, after: int, limit: int) -> Sequence[tuple[int, Fact]]:
        """Return facts after a position."""
        start = max(after - self._dropped, 0)
        # A slice, because `islice` would pass over all facts before it.
        return list(enumerate(self._facts[start : start + limit], self._dropped + start + 1))

    def facts_of(self, invocation_id: InvocationId) -> Sequence[Fact]:
        """Return the facts of one call."""
        for fact in self._facts[self._indexed - self._dropped :]:
            if fact.invocation_id is not None:
                self._index.setdefault(fact.invocation_id, []).append(fact)
        self._indexed = self.last
        return (*self._open.get(invocation_id, ()), *self._index.get(invocation_id, ()))

    stored_facts_of = facts_of

    def _drop_large(self) -> None:
        upto = self._dropped
        while self._chars > self._max_chars and len(self._large) > 1:
            upto, chars = self._large.popleft()
            self._chars -= chars
        self._drop(upto - self._dropped)

    def _drop(self, count: int) -> None:
        """Drop the oldest facts, but not the early ones of a call whose end is not among them."""
        if count <= 0:
            return
        for fact in islice(self._facts, count):
            if fact.invocation_id is not None:
                self._open.setdefault(fact.invocation_id, []).append(fact)
                if fact.step.ends:
                    del self._open[fact.invocation_id]
        del self._facts[:count]
        self._dropped += count
        self._index.clear()
        self._indexed = self._dropped


class MemoryPayloads:
    """Bytes in a dictionary, each with the time at which they were stored last."""

    def __init__(self) -> None:
        self._stored: dict[Digest, tuple[bytes, int]] = {}

    async def put(self, data: bytes, digest: Digest) -> str:
        """Store bytes."""
        self._stored[digest] = (data, time.time_ns())
        return f"payload:{digest}"

    async def get(self, digest: Digest, *, start: int = 0, length: int | None = None) -> bytes | None:
        """Return bytes or a range of them."""
        if digest not in self._stored:
            return None
        data, _ = self._stored[digest]
        return data[start:] if length is None else data[start : start + length]

    async def stream(self, digest: Digest) -> AsyncIterator[bytes]:
        """Yield bytes in one piece."""
        data = await self.get(digest)
        if data is None:
            raise StoreError(f"the payload {digest!r} is not there; it may have expired")
        yield data

    async def expire(self, before_ns: int) -> int:
        """Delete bytes that were not stored again since."""
        old = [digest for digest, (_, put_at) in self._stored.items() if put_at < before_ns]
        for digest in old:
            self.drop(digest)
        return len(old)

    def drop(self, digest: Digest) -> None:
        """Delete bytes, as retention does."""
        self._stored.pop(digest, None)


class MemoryOpenCalls:
    """The open calls of one process in dictionaries."""

    owner = "memory"

    def __init__(self) -> None:
        self._calls: dict[InvocationId, OpenCall] = {}
        self._asking: dict[ApprovalId, InvocationId] = {}
        self._answers: dict[ApprovalId, RecordedAnswer] = {}
        self._keys: dict[str, Reservation] = {}

    def save(self, saved: SavedCheckpoint) -> None:
        """Save the checkpoint of a call."""
        before = self._calls.get(saved.invocation_id)
        if before is not None and before.approval_id != saved.approval_id:
            self._close_question(before)
        owner = None if saved.is_unowned else self.owner
        self._calls[saved.invocation_id] = OpenCall(*saved[:5], owner)
        if saved.approval_id is not None:
            self._asking[saved.approval_id] = saved.invocation_id

    def remove(self, invocation_id: InvocationId, *, is_sensitive: bool = True) -> None:
        """Remove a call that ends, and the body of its answer."""
        call = self._calls.pop(invocation_id, None)
        if call is not None:
            self._close_question(call)

    def _close_question(self, call: OpenCall) -> None:
        if call.approval_id is not None:
            self._asking.pop(call.approval_id, None)
        recorded = self._answer_to(call)
        if recorded is not None:
            self._answers[recorded.approval_id] = replace(recorded, body=b"")

    async def settle(self) -> None:
        """Return: nothing is written."""

    async def claim_one(self, invocation_id: InvocationId, *, now: Moment, if_due: bool = False) -> OpenCall | None:
        """Claim a call that belongs to no process."""
        call = self._calls.get(invocation_id)
        if call is None or call.owner is not None:
            return None
        self._calls[invocation_id] = replace(call, owner=self.owner)
        return self._with_answer(call)

    async def reserve(
        self,
        key: str,
        invocation_id: InvocationId,
        *,
        request: bytes = b"",
        now: Moment,
        instead_of: InvocationId | None = None,
    ) -> Reservation | None:
        """Reserve a key for a call; return the earlier reservation if there is one."""
        earlier = self._keys.get(key)
        if earlier is not None and earlier.invocation_id != instead_of:
            return earlier
        self._keys[key] = Reservation(invocation_id, self.owner, request)
        if len(self._keys) > MAX_KEYS:
            del self._keys[next(iter(self._keys))]
        return None

    def _answer_to(self, call: OpenCall) -> RecordedAnswer | None:
        return None if call.approval_id is None else self._answers.get(call.approval_id)

    def _with_answer(self, call: OpenCall) -> OpenCall:
        recorded = self._answer_to(call)
        return call if recorded is None else replace(call, answer=recorded.body or None)

    async def get(self, invocation_id: InvocationId) -> OpenCall | None:
        """Return one call."""
        call = self._calls.get(invocation_id)
        return call and self._with_answer(call)

    async def by_approval(self, approval_id: ApprovalId) -> OpenCall | None:
        """Return the call that waits for the answer to this question."""
        asking = self._asking.get(approval_id)
        return None if asking is None else await self.get(asking)

    async def awaiting_answer(
        self, *, after: ApprovalId | None = None, limit: int, prefix: str = "apr_"
    ) -> Sequence[OpenCall]:
        """Return calls that wait for an answer, by the age of their questions."""
        asked = (each for each in self._asking if each.startswith(prefix) and each > (after or ""))
        waiting = nsmallest(limit, (each for each in asked if each not in self._answers))
        return [self._calls[self._asking[each]] for each in waiting]

    async def answer(self, approval_id: ApprovalId, body: bytes, *, now_ns: int) -> AnswerStatus:
        """Record the answer to a question."""
        if approval_id in self._answers:
            return AnswerStatus.ANSWERED
        call = await self.by_approval(approval_id)
        if call is None:
            return AnswerStatus.UNKNOWN
        if call.expires_at_ns is not None and call.expires_at_ns <= now_ns:
            return AnswerStatus.EXPIRED
        number = len(self._answers) + 1
        self._answers[approval_id] = RecordedAnswer(number=number, approval_id=approval_id, body=body)
        return AnswerStatus.ACCEPTED

    async def answers(self, *, after: int, limit: int) -> Sequence[RecordedAnswer]:
        """Return answers that calls still wait for."""
        return [each for each in self._answers.values() if each.number > after and each.body][:limit]


class MemoryDocuments(DocumentStore):
    """Documents in a dictionary."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, bytes]] = {}

    async def get(self, kind: str, key: str) -> bytes | None:
        """Return a document."""
        return self._kinds.get(kind, {}).get(key)

    async def put(self, kind: str, key: str, body: bytes | None, *, erases: bool = False) -> None:
        """Write or delete a document."""
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
        beside: Mapping[tuple[str, str], bytes | None] | None = None,
        erases: bool = False,
    ) -> bool:
        """Write a document if the present one equals `before`."""
        if await self.get(kind, key) != before:
            return False
        await self.put(kind, key, after, erases=erases)
        for place, body in (beside or {}).items():
            await self.put(*place, body)
        return True

    async def withdraw(self, kind: str, key: str, *, before: bytes, after: bytes | None) -> bool:
        """Write the last version of a document."""
        return await self.swap(kind, key, before=before, after=after)

    async def page(self, kind: str, *, prefix: str = "", after: str = "", limit: int) -> Sequence[tuple[str, bytes]]:
        """Return documents in the order of their keys."""
        documents = self._kinds.get(kind, {})
        keys = nsmallest(limit, (key for key in documents if key.startswith(prefix) and key > after))
        return [(key, documents[key]) for key in keys]
