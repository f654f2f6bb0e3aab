"""A reference of the open calls of several processes, which keeps them in dictionaries."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest

from agenttool.ports.deferred import AnswerStatus
from agenttool.ports.stores import LeaseExpired, LeaseLost, OpenCall, RecordedAnswer, Reservation, SavedCheckpoint
from agenttool.ports.world import Moment
from agenttool.records import ApprovalId, InvocationId, replace

MAX_KEYS = 10_000


@dataclass(slots=True)
class CallTable:
    """The state that all owners share."""

    calls: dict[InvocationId, OpenCall] = field(default_factory=dict[InvocationId, OpenCall])
    due_ns: dict[InvocationId, int] = field(default_factory=dict[InvocationId, int])
    asking: dict[ApprovalId, InvocationId] = field(default_factory=dict[ApprovalId, InvocationId])
    leases: dict[str, Moment] = field(default_factory=dict[str, Moment])
    answers: dict[ApprovalId, RecordedAnswer] = field(default_factory=dict[ApprovalId, RecordedAnswer])
    keys: dict[str, Reservation] = field(default_factory=dict[str, Reservation])


class ReferenceOpenCalls:
    """Open calls of several owners in dictionaries: what the calls in a file are compared with."""

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

    async def processes(self, now: Moment) -> Collection[str]:
        """Return the owners with a lease."""
        return self._alive(now)

    async def due(self, *, now: Moment, after: InvocationId | None = None, limit: int) -> Sequence[OpenCall]:
        """Return calls of dead owners that have work to do."""
        alive = self._alive(now)
        due = (call for call in self._sorted() if call.owner not in alive and self._is_due(call, now.now_ns))
        return [self._with_answer(call) for call in due if call.invocation_id > (after or "")][:limit]

    async def claim_one(self, invocation_id: InvocationId, *, now: Moment, if_due: bool = False) -> OpenCall | None:
        """Claim one call of a dead owner."""
        alive, call = self._alive(now), self._table.calls.get(invocation_id)
        if self._owner not in alive:
            raise LeaseExpired(f"the owner {self._owner} has no lease; renew it before claiming calls of others")
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
