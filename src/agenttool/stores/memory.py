"""Stores in memory: the reference implementations, and the stores of a runtime without a file."""

import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import islice

from agenttool.errors import StoreError
from agenttool.ports.deferred import AnswerStatus
from agenttool.ports.facts import Fact
from agenttool.ports.stores import LeaseLost, OpenCall, RecordedAnswer, Reservation, SavedCheckpoint
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


@dataclass(slots=True)
class CallTable:
    """The state that all owners share."""

    calls: dict[InvocationId, OpenCall] = field(default_factory=dict[InvocationId, OpenCall])
    due_ns: dict[InvocationId, int] = field(default_factory=dict[InvocationId, int])
    asking: dict[ApprovalId, InvocationId] = field(default_factory=dict[ApprovalId, InvocationId])
    leases: dict[str, Moment] = field(default_factory=dict[str, Moment])
    answers: dict[ApprovalId, RecordedAnswer] = field(default_factory=dict[ApprovalId, RecordedAnswer])
    keys: dict[str, Reservation] = field(default_factory=dict[str, Reservation])


class MemoryOpenCalls:
    """Open calls in a dictionary. There is one owner, unless a test passes a table that several share."""

    def __init__(self, owner: str = "memory", table: CallTable | None = None) -> None:
        """Take the name of the owner, and the table that it shares with others."""
        self._owner = owner
        self._table = table or CallTable()
        self._is_registered = False

    @property
    def owner(self) -> str:
        """The name of this owner."""
        return self._owner

    @property
    def _is_dead(self) -> bool:
        return self._is_registered and self._owner not in self._table.leases

    def save(self, saved: SavedCheckpoint) -> None:
        """Save the checkpoint of a call; nothing, if the lease of this owner was lost."""
        if self._is_dead:
            return
        invocation_id = saved.invocation_id
        before = self._table.calls.get(invocation_id)
        if before is not None and before.approval_id != saved.approval_id:
            self._close_question(before)
        self._table.calls[invocation_id] = OpenCall(
            invocation_id=invocation_id,
            kind=saved.kind,
            body=saved.body,
            approval_id=saved.approval_id,
            expires_at_ns=saved.expires_at_ns,
            owner=None if saved.is_unowned else self._owner,
        )
        self._table.due_ns.pop(invocation_id, None)
        if saved.due_ns is not None:
            self._table.due_ns[invocation_id] = saved.due_ns
        if saved.approval_id is not None:
            self._table.asking[saved.approval_id] = invocation_id

    def remove(self, invocation_id: InvocationId, *, is_sensitive: bool = True) -> None:
        """Remove a call that ends, and the body of its answer."""
        call = None if self._is_dead else self._table.calls.pop(invocation_id, None)
        if call is not None:
            self._table.due_ns.pop(invocation_id, None)
            self._close_question(call)

    def _close_question(self, call: OpenCall) -> None:
        if call.approval_id is not None:
            self._table.asking.pop(call.approval_id, None)
        recorded = self._answer_to(call)
        if recorded is not None:
            self._table.answers[recorded.approval_id] = replace(recorded, body=b"")

    async def settle(self) -> None:
        """Return, unless the lease of this owner was lost."""
        if self._is_dead:
            raise LeaseLost(f"the lease of {self._owner} expired and others claimed its calls; replace the owner")

    def replace_owner(self) -> Collection[InvocationId]:
        """Take a new owner name; other processes have claimed the calls of the old one."""
        self._owner, self._is_registered = f"{self._owner}'", False
        return ()

    async def renew_lease(self, until: Moment) -> None:
        """Extend the lease of this owner."""
        await self.settle()
        self._table.leases[self._owner] = until
        self._is_registered = True

    async def release_lease(self) -> None:
        """End the lease of this owner."""
        await self.settle()
        self._table.leases.pop(self._owner, None)
        self._is_registered = False

    async def due(self, *, now: Moment, after: InvocationId | None = None, limit: int) -> Sequence[OpenCall]:
        """Return calls of dead owners that have work to do."""
        alive = self._alive(now)
        due = (call for call in self._sorted() if call.owner not in alive and self._is_due(call, now.now_ns))
        return [self._with_answer(call) for call in due if call.invocation_id > (after or "")][:limit]

    async def claim_one(self, invocation_id: InvocationId, *, now: Moment, if_due: bool = False) -> OpenCall | None:
        """Claim one call of a dead owner."""
        alive, call = self._alive(now), self._table.calls.get(invocation_id)
        if self._owner not in alive:
            raise StoreError(f"the owner {self._owner} has no lease; renew it before claiming calls of others")
        if call is None or call.owner in alive or (if_due and not self._is_due(call, now.now_ns)):
            return None
        self._table.calls[invocation_id] = replace(call, owner=self._owner)
        if call.owner is not None:
            self._table.leases.pop(call.owner, None)
        return self._with_answer(call)

    async def reserve(
        self, key: str, invocation_id: InvocationId, *, request: bytes = b"", now: Moment
    ) -> Reservation | None:
        """Reserve a key for a call; return the earlier reservation if there is one."""
        keys = self._table.keys
        if key in keys:
            return keys[key]
        keys[key] = Reservation(invocation_id, self._owner, request)
        if len(keys) > MAX_KEYS:
            del keys[next(iter(keys))]
        return None

    def _alive(self, now: Moment) -> set[str]:
        return {owner for owner, until in self._table.leases.items() if now.is_before(until)}

    def _answer_to(self, call: OpenCall) -> RecordedAnswer | None:
        return None if call.approval_id is None else self._table.answers.get(call.approval_id)

    def _with_answer(self, call: OpenCall) -> OpenCall:
        recorded = self._answer_to(call)
        return call if recorded is None else replace(call, answer=recorded.body or None)

    def _is_due(self, call: OpenCall, now_ns: int) -> bool:
        due_ns = self._table.due_ns.get(call.invocation_id)
        is_late = due_ns is not None and due_ns <= now_ns
        recorded = self._answer_to(call)
        return call.approval_id is None or is_late or (recorded is not None and recorded.body != b"")

    async def get(self, invocation_id: InvocationId) -> OpenCall | None:
        """Return one call."""
        call = self._table.calls.get(invocation_id)
        return None if call is None else self._with_answer(call)

    async def by_approval(self, approval_id: ApprovalId) -> OpenCall | None:
        """Return the call that waits for the answer to this question."""
        asking = self._table.asking.get(approval_id)
        return None if asking is None else await self.get(asking)

    async def page(self, *, after: InvocationId | None = None, limit: int) -> Sequence[OpenCall]:
        """Return open calls by age; ids sort by time."""
        return [self._with_answer(call) for call in self._sorted() if call.invocation_id > (after or "")][:limit]

    async def awaiting_answer(
        self, *, after: ApprovalId | None = None, limit: int, prefix: str = "apr_"
    ) -> Sequence[OpenCall]:
        """Return calls that wait for an answer, by the age of their questions."""
        begin = after or ""
        asked = (each for each in self._table.asking if each.startswith(prefix) and each > begin)
        waiting = nsmallest(limit, (each for each in asked if each not in self._table.answers))
        return [self._table.calls[self._table.asking[each]] for each in waiting]

    async def answer(self, approval_id: ApprovalId, body: bytes, *, now_ns: int) -> AnswerStatus:
        """Record the answer to a question."""
        await self.settle()
        if approval_id in self._table.answers:
            return AnswerStatus.ANSWERED
        call = await self.by_approval(approval_id)
        if call is None:
            return AnswerStatus.UNKNOWN
        if call.expires_at_ns is not None and call.expires_at_ns <= now_ns:
            return AnswerStatus.EXPIRED
        number = len(self._table.answers) + 1
        self._table.answers[approval_id] = RecordedAnswer(number=number, approval_id=approval_id, body=body)
        return AnswerStatus.ACCEPTED

    async def was_answered(self, approval_id: ApprovalId) -> bool:
        """Return whether a question was answered."""
        return approval_id in self._table.answers

    async def answers(self, *, after: int, limit: int) -> Sequence[RecordedAnswer]:
        """Return answers that calls still wait for."""
        return [each for each in self._table.answers.values() if each.number > after and each.body][:limit]

    def _sorted(self) -> list[OpenCall]:
        return [self._table.calls[invocation_id] for invocation_id in sorted(self._table.calls)]


class MemoryDocuments:
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
        beside: Mapping[tuple[str, str], bytes] | None = None,
        erases: bool = False,
    ) -> bool:
        """Write a document if the present one equals `before`."""
        if await self.get(kind, key) != before:
            return False
        await self.put(kind, key, after, erases=erases)
        for place, body in (beside or {}).items():
            await self.put(*place, body)
        return True

    async def page(self, kind: str, *, prefix: str = "", after: str = "", limit: int) -> Sequence[tuple[str, bytes]]:
        """Return documents in the order of their keys."""
        documents = self._kinds.get(kind, {})
        keys = nsmallest(limit, (key for key in documents if key.startswith(prefix) and key > after))
        return [(key, documents[key]) for key in keys]

    async def keys(self, kind: str, *, prefix: str = "", limit: int) -> Sequence[str]:
        """Return keys in order."""
        return nsmallest(limit, (key for key in self._kinds.get(kind, {}) if key.startswith(prefix)))
