"""The calls under way, in this process: the reference, and what a runtime without a file uses."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest

from agenttool.errors import StoreError
from agenttool.ports.stores import GivenAnswer, OpenCall, Taken, TakenForDead
from agenttool.ports.world import Moment
from agenttool.records import ApprovalId, InvocationId, replace


@dataclass(slots=True)
class CallTable:
    """What owners share."""

    calls: dict[InvocationId, OpenCall] = field(default_factory=dict[InvocationId, OpenCall])
    due_ns: dict[InvocationId, int] = field(default_factory=dict[InvocationId, int])
    asking: dict[ApprovalId, InvocationId] = field(default_factory=dict[ApprovalId, InvocationId])
    alive_until: dict[str, Moment] = field(default_factory=dict[str, Moment])
    answers: dict[ApprovalId, GivenAnswer] = field(default_factory=dict[ApprovalId, GivenAnswer])


class MemoryOpenCalls:
    """Calls in a dictionary. There is one owner, unless a test brings a table that several share."""

    def __init__(self, owner: str = "memory", table: CallTable | None = None) -> None:
        """Take the name of the owner, and what it shares with others."""
        self._owner = owner
        self._table = table or CallTable()
        self._is_registered = False

    @property
    def owner(self) -> str:
        """The name of this owner."""
        return self._owner

    @property
    def _is_dead(self) -> bool:
        return self._is_registered and self._owner not in self._table.alive_until

    def hold(  # noqa: PLR0913 -- the columns of a call
        self,
        invocation_id: InvocationId,
        *,
        kind: str,
        body: bytes,
        approval_id: ApprovalId | None = None,
        expires_at_ns: int | None = None,
        due_at_ns: int | None = None,
        is_left: bool = False,
    ) -> None:
        """Keep what a call needs to go on; nothing, if others took this owner for dead."""
        if self._is_dead:
            return
        before = self._table.calls.get(invocation_id)
        if before is not None and before.approval_id != approval_id:
            self._forget_question(before)
        self._table.calls[invocation_id] = OpenCall(
            invocation_id=invocation_id,
            kind=kind,
            body=body,
            approval_id=approval_id,
            expires_at_ns=expires_at_ns,
            owner=None if is_left else self._owner,
        )
        self._table.due_ns.pop(invocation_id, None)
        due_ns = expires_at_ns if due_at_ns is None else due_at_ns
        if due_ns is not None:
            self._table.due_ns[invocation_id] = due_ns
        if approval_id is not None:
            self._table.asking[approval_id] = invocation_id

    def release(self, invocation_id: InvocationId) -> None:
        """Let go of a call that ends, and of what was answered to it; that it was answered stays."""
        call = None if self._is_dead else self._table.calls.pop(invocation_id, None)
        if call is not None:
            self._table.due_ns.pop(invocation_id, None)
            self._forget_question(call)

    def _forget_question(self, call: OpenCall) -> None:
        if call.approval_id is not None:
            self._table.asking.pop(call.approval_id, None)
        given = self._table.answers.get(call.approval_id) if call.approval_id else None
        if given is not None:
            self._table.answers[given.approval_id] = replace(given, body=b"")

    async def settle(self) -> None:
        """Return, unless others took this owner for dead."""
        if self._is_dead:
            raise TakenForDead(f"the owner {self._owner} was taken for dead and others have its calls; begin anew")

    def begin_anew(self) -> Collection[InvocationId]:
        """Take another name; what it held under the one before was others' from the moment they took it."""
        self._owner, self._is_registered = f"{self._owner}'", False
        return ()

    async def renew(self, until: Moment) -> None:
        """Say that this owner is alive until then."""
        await self.settle()
        self._table.alive_until[self._owner] = until
        self._is_registered = True

    async def retire(self) -> None:
        """Say that this owner is no more."""
        await self.settle()
        self._table.alive_until.pop(self._owner, None)
        self._is_registered = False

    async def due(self, *, now: Moment, after: InvocationId | None = None, limit: int) -> Sequence[OpenCall]:
        """Give calls of dead owners that there is something to do for."""
        alive = self._alive(now)
        due = (call for call in self._sorted() if call.owner not in alive and self._is_due(call, now.now_ns))
        return [self._answered(call) for call in due if call.invocation_id > (after or "")][:limit]

    async def claim(self, *, now: Moment, limit: int) -> Sequence[OpenCall]:
        """Take calls of dead owners that there is something to do for."""
        return self._claim((call for call in self._sorted() if self._is_due(call, now.now_ns)), now, limit)

    async def take(self, invocation_id: InvocationId, *, now: Moment, if_due: bool = False) -> OpenCall | None:
        """Take one call of a dead owner."""
        call = self._table.calls.get(invocation_id)
        is_wanted = call is not None and (not if_due or self._is_due(call, now.now_ns))
        found = self._claim((call,) if call is not None and is_wanted else (), now, 1)
        return found[0] if found else None

    def _claim(self, chosen: Iterable[OpenCall], now: Moment, limit: int) -> list[OpenCall]:
        alive = self._alive(now)
        if self._owner not in alive:
            raise StoreError(f"the owner {self._owner} is not alive itself; renew before taking calls of others")
        found = [call for call in chosen if call.owner not in alive][:limit]
        for call in found:
            self._table.calls[call.invocation_id] = replace(call, owner=self._owner)
            if call.owner is not None and call.owner != self._owner:
                self._table.alive_until.pop(call.owner, None)
        return [self._answered(call) for call in found]

    def _alive(self, now: Moment) -> set[str]:
        return {owner for owner, until in self._table.alive_until.items() if now.is_before(until)}

    def _answered(self, call: OpenCall) -> OpenCall:
        """Give a call with what was answered to its question."""
        given = self._table.answers.get(call.approval_id) if call.approval_id else None
        return call if given is None else replace(call, answer=given.body or None)

    def _is_due(self, call: OpenCall, now_ns: int) -> bool:
        due_ns = self._table.due_ns.get(call.invocation_id)
        is_late = due_ns is not None and due_ns <= now_ns
        given = self._table.answers.get(call.approval_id) if call.approval_id else None
        return call.approval_id is None or is_late or (given is not None and given.body != b"")

    async def get(self, invocation_id: InvocationId) -> OpenCall | None:
        """Give one call."""
        call = self._table.calls.get(invocation_id)
        return None if call is None else self._answered(call)

    async def by_approval(self, approval_id: ApprovalId) -> OpenCall | None:
        """Give the call that waits for the answer to this question."""
        asking = self._table.asking.get(approval_id)
        return None if asking is None else await self.get(asking)

    async def page(self, *, after: InvocationId | None = None, limit: int) -> Sequence[OpenCall]:
        """Give open calls by age; ids sort by time."""
        return [self._answered(call) for call in self._sorted() if call.invocation_id > (after or "")][:limit]

    async def parked(self, *, after: ApprovalId | None = None, limit: int, prefix: str = "apr_") -> Sequence[OpenCall]:
        """Give calls that wait for an answer, by the age of their questions."""
        begin = after or ""
        asked = (each for each in self._table.asking if each.startswith(prefix) and each > begin)
        waiting = nsmallest(limit, (each for each in asked if each not in self._table.answers))
        return [self._table.calls[self._table.asking[each]] for each in waiting]

    async def answer(self, approval_id: ApprovalId, body: bytes, *, now_ns: int) -> Taken:
        """Give the answer to a question."""
        await self.settle()
        if approval_id in self._table.answers:
            return Taken.ANSWERED
        call = await self.by_approval(approval_id)
        if call is None:
            return Taken.UNKNOWN
        if call.expires_at_ns is not None and call.expires_at_ns <= now_ns:
            return Taken.EXPIRED
        number = len(self._table.answers) + 1
        self._table.answers[approval_id] = GivenAnswer(number=number, approval_id=approval_id, body=body)
        return Taken.TAKEN

    async def was_answered(self, approval_id: ApprovalId) -> bool:
        """Tell whether a question was answered."""
        return approval_id in self._table.answers

    async def answers(self, *, after: int, limit: int) -> Sequence[GivenAnswer]:
        """Give answers that calls still wait for."""
        return [each for each in self._table.answers.values() if each.number > after and each.body][:limit]

    def _sorted(self) -> list[OpenCall]:
        return [self._table.calls[invocation_id] for invocation_id in sorted(self._table.calls)]
