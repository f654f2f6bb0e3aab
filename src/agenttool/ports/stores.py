"""The stores of a runtime: the log of facts, the open calls, the bytes of large results, and small documents."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from agenttool.errors import StoreError
from agenttool.ports.deferred import AnswerStatus
from agenttool.ports.facts import Fact
from agenttool.ports.world import Moment
from agenttool.records import ApprovalId, Digest, InvocationId, Part


class EventLog(Protocol):
    """All facts, in order. Facts are never changed; positions count from 1 and never move.

    A reader in order of positions sees only what is stored durably; `facts_of` also returns pending facts.
    """

    @property
    def durable(self) -> bool:
        """Whether there is anything to flush; the path of a call does not wait where there is not."""
        ...

    @property
    def append(self) -> Callable[[Fact], None]:
        """The function that appends one fact without waiting; the fact is stored once `settle` has returned.

        It is read once, because every call uses it several times. A durable log raises `StoreError` if the fact
        cannot be written, or if too many facts wait for a failing disk.
        """
        ...

    def ended(self, chars: int) -> None:
        """Notify the log that a call with so many characters has ended; a log in memory may drop old facts."""
        ...

    def settle(self) -> Awaitable[None]:
        """Return an awaitable that completes once all facts appended before are stored durably.

        Raises (when awaited):
            StoreError: they are not, and must not be delivered. The next settle tries again.
        """
        ...

    @property
    def last(self) -> int:
        """The position of the newest fact; 0 if there never was one."""
        ...

    def read(self, after: int, limit: int) -> Sequence[tuple[int, Fact]]:
        """Return facts with their positions, oldest first; facts that retention deleted are skipped."""
        ...

    def facts_of(self, invocation_id: InvocationId) -> Sequence[Fact]:
        """Return the facts of one call, oldest first, also those not yet durable; none if the call is unknown."""
        ...

    def stored_facts_of(self, invocation_id: InvocationId) -> Sequence[Fact]:
        """Return the facts of one call that are stored durably and may be delivered."""
        ...


class Head(Part, frozen=True, kw_only=True):
    """A position in the chain and its hash. Pinned elsewhere, it proves later whether the log up to it was changed."""

    position: int
    hash: str


class JournalFlaw(Part, frozen=True):
    """A difference at a position of the log between what is expected and what is found."""

    position: int
    what: str
    expected: str
    found: str


class DurableLog(EventLog, Protocol):
    """A log that outlives the process and is hash-chained, so that every change can be detected.

    It fails closed. When facts cannot be stored, every waiter gets a `StoreError`, no reader sees the facts, and they
    stay queued in order for the next settle.
    """

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` whenever there may be new facts; return the function that stops this."""
        ...

    def amend_end(self, end: Fact) -> bool | None:
        """Replace the end of a call that is queued by another end, whose `sequence` does not count.

        If nothing of the call is stored, all that is queued of it is dropped instead. Returns whether anything of the
        call was queued, and none while it is being written: settle, and try again.
        """
        ...

    def head(self) -> Head:
        """Return the end of the chain, to be pinned where a writer of the log cannot change it."""
        ...

    def verify(self, pinned: Head | None = None) -> Iterator[JournalFlaw]:
        """Walk the chain and yield every flaw, in memory that does not grow with the log.

        Args:
            pinned: an earlier head; without one, a log that was rewritten as a whole verifies.
        """
        ...

    async def delete_before(self, before_ns: int) -> Head:
        """Delete the oldest facts, up to the first that is newer or belongs to an open call.

        The rest is chained to an anchor, the position and hash of the last deleted fact, which is returned.
        """
        ...


class SavedCheckpoint(NamedTuple):
    """The checkpoint of a call as a store holds it; `OpenCall` describes the members that it has, too.

    Attributes:
        due_at_ns: when there is work even without an answer; as it expires, if not given.
        is_unowned: it belongs to no process from now on, and any may claim it when it is due.
    """

    invocation_id: InvocationId
    kind: str
    body: bytes
    approval_id: ApprovalId | None = None
    expires_at_ns: int | None = None
    due_at_ns: int | None = None
    is_unowned: bool = False

    @property
    def due_ns(self) -> int | None:
        """When there is work even without an answer."""
        return self.expires_at_ns if self.due_at_ns is None else self.due_at_ns


class OpenCall(Part, frozen=True):
    """A call that has not ended, with its checkpoint.

    Attributes:
        kind: the kind of its checkpoint, in the words of the pipeline.
        body: the raw inputs; may contain secrets, and is deleted when the call ends.
        approval_id: the approval it waits for; or, by a prefix of its own, the deferred result.
        expires_at_ns: when it is too late to answer.
        owner: the process that runs it; none if the process that receives the answer shall claim it.
        answer: the answer to its question, if there is one.
    """

    invocation_id: InvocationId
    kind: str
    body: bytes
    approval_id: ApprovalId | None = None
    expires_at_ns: int | None = None
    owner: str | None = None
    answer: bytes | None = None


NO_CHECKPOINT = "no_checkpoint"
"""The kind of an open call without a checkpoint: its body is empty, and the log has its facts."""


class RecordedAnswer(Part, frozen=True, kw_only=True):
    """The one answer to a question; numbers count up in the order of answering.

    The body, which is never empty, is deleted once its call has another checkpoint or ends.
    """

    number: int
    approval_id: ApprovalId
    body: bytes


class LeaseLost(StoreError):
    """The lease of this process expired and others claimed its calls; under this owner it can write nothing more."""


class LeaseExpired(StoreError):
    """The lease of this process has expired, so it can claim no call until it renews the lease."""


class Reservation(NamedTuple):
    """The call that has a key, the process that reserved it, and a digest of the tool and the arguments."""

    invocation_id: InvocationId
    owner: str
    request: bytes = b""


class OpenCalls(Protocol):
    """The open calls that wait, each with its checkpoint. The caller passes the time: a store has no clock."""

    @property
    def owner(self) -> str:
        """The owner name of this process."""
        ...

    def save(self, saved: SavedCheckpoint) -> None:
        """Save the checkpoint of a call in the place of the one before; it is durable after the next settle."""
        ...

    def remove(self, invocation_id: InvocationId, *, is_sensitive: bool = True) -> None:
        """Remove a call that ends; in one transaction with its last fact, if nothing is awaited between the two.

        The checkpoint of a call with sensitive inputs is erased: no copy of it is left in any file of the store.
        """
        ...

    def settle(self) -> Awaitable[None]:
        """Return an awaitable that completes once all that was saved and removed before is durable.

        The facts of a log beside it are durable then, too.

        Raises (when awaited):
            StoreError: it is not.
        """
        ...

    async def claim_one(self, invocation_id: InvocationId, *, now: Moment, if_due: bool = False) -> OpenCall | None:
        """Claim a call that belongs to no process, or to a dead one; none if it is not there, or is owned.

        With `if_due`, a call is claimed only if it still has work to do, as in `RecoverableCalls.due`.

        Raises:
            LeaseExpired: this owner has no lease itself.
        """
        ...

    async def reserve(
        self,
        key: str,
        invocation_id: InvocationId,
        *,
        request: bytes = b"",
        now: Moment,
        instead_of: InvocationId | None = None,
    ) -> Reservation | None:
        """Reserve a key for a call, in all processes; return the earlier reservation if there is one.

        The key of a process that died before the log had a fact of its call can be reserved again, as can that of the
        call `instead_of`.
        """
        ...

    async def get(self, invocation_id: InvocationId) -> OpenCall | None:
        """Return one call, as it was stored last."""
        ...

    async def by_approval(self, approval_id: ApprovalId) -> OpenCall | None:
        """Return the call that waits for the answer to this question."""
        ...

    async def awaiting_answer(
        self, *, after: ApprovalId | None = None, limit: int, prefix: str = "apr_"
    ) -> Sequence[OpenCall]:
        """Return calls that wait for an answer and have none, by the age of their questions, with ids of a prefix."""
        ...

    async def answer(self, approval_id: ApprovalId, body: bytes, *, now_ns: int) -> AnswerStatus:
        """Record the answer to a question, if it is in time and the first from any process."""
        ...

    async def answers(self, *, after: int, limit: int) -> Sequence[RecordedAnswer]:
        """Return the answers after a number that calls still wait for, in order."""
        ...


class RecoverableCalls(OpenCalls, Protocol):
    """The open calls of a durable store, so that another process can recover them when this one dies.

    Each process is an *owner* with a lease (`renew_lease`). Its calls are its own until the lease expires; then another
    process may claim them, and the old owner can write nothing any more. The caller passes the time: a store has no
    clock. Where two processes share a monotonic clock, it decides, so wall-clock changes do not affect leases.

    With a durable log beside it, every call whose facts are stored and whose end is not is open. Without a checkpoint
    its kind is `NO_CHECKPOINT`.
    """

    async def renew_lease(self, until: Moment) -> None:
        """Extend the lease of this owner.

        Raises:
            LeaseLost: it expired, and others claimed the calls of this owner.
            StoreError: it could not be written.
        """
        ...

    def replace_owner(self) -> Collection[InvocationId]:
        """Take a new owner name after the lease was lost; return the calls that belong to others now.

        Nothing more is written about those: it would contradict what their new owners write.
        """
        ...

    async def processes(self, now: Moment) -> Collection[str]:
        """Return the owners with a lease."""
        ...

    async def due(self, *, now: Moment, after: InvocationId | None = None, limit: int) -> Sequence[OpenCall]:
        """Return calls of dead owners that have work to do, the oldest first, and claim none of them.

        A call that waits for an answer has none until the answer is there or the call is due.
        """
        ...

    async def was_answered(self, approval_id: ApprovalId) -> bool:
        """Return whether a question was answered; this is known for longer than the question."""
        ...


class PayloadStore(Protocol):
    """Bytes by their digest: written once, read many times, deleted by retention."""

    async def put(self, data: bytes, digest: Digest) -> str:
        """Store bytes and return the URI under which they can be fetched; storing them twice has no further effect.

        Raises:
            StoreError: they could not be stored.
        """
        ...

    async def get(self, digest: Digest, *, start: int = 0, length: int | None = None) -> bytes | None:
        """Return bytes or a range of them; none if they are not there (any more).

        The whole is checked against its digest; a range is not.

        Raises:
            StoreError: the bytes are not the ones that were stored, or cannot be read.
        """
        ...

    def stream(self, digest: Digest) -> AsyncIterator[bytes]:
        """Yield bytes piece by piece; the last piece follows the check of the whole against its digest.

        Raises (while it is read):
            StoreError: they are not there, are not the ones that were stored, or cannot be read.
        """
        ...

    async def expire(self, before_ns: int) -> int:
        """Delete bytes that were not stored again since a time; return how many there were."""
        ...


class DocumentStore(Protocol):
    """Small documents by kind and key, which adapters share across processes; a document is durable once `put` returns.

    Several processes may use one store. `swap` decides which of them was first. A store is a subclass.
    """

    async def get(self, kind: str, key: str) -> bytes | None:
        """Return a document; none if there is none."""
        ...

    async def put(self, kind: str, key: str, body: bytes | None, *, erases: bool = False) -> None:
        """Write a document in the place of the one before; none deletes it.

        `erases` if no copy of the one before may be left in any file of the store.

        Raises:
            StoreError: it could not be stored.
        """
        ...

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
        """Write a document only if the present one equals `before`; return whether it did.

        Documents `beside` it, by kind and key, are written in the same transaction; None deletes one.

        Raises:
            StoreError: it could not be stored.
        """
        ...

    async def withdraw(self, kind: str, key: str, *, before: bytes, after: bytes | None) -> bool:
        """Write the last version of a document, as `swap` does, or delete it.

        An older copy of the store that is restored does not bring another version back.

        Raises:
            StoreError: it could not be stored.
        """
        ...

    async def page(self, kind: str, *, prefix: str = "", after: str = "", limit: int) -> Sequence[tuple[str, bytes]]:
        """Return documents whose keys have a prefix, in the order of their keys, from after one of them."""
        ...

    async def keys(self, kind: str, *, prefix: str = "", limit: int) -> Sequence[str]:
        """Return the first keys with a prefix, in order, without their documents."""
        return [key for key, _ in await self.page(kind, prefix=prefix, limit=limit)]
