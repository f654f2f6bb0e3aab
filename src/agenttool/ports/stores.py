"""What is kept: the log of facts, the calls under way, and the bytes of large results."""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from typing import Protocol

from agenttool.errors import StoreError
from agenttool.ports.facts import Fact
from agenttool.ports.world import Moment
from agenttool.records import ApprovalId, ClosedEnum, Digest, InvocationId, Part


class EventLog(Protocol):
    """All facts, in order. What was appended is never changed; positions count from 1 and never move.

    Whoever reads in order sees what is kept at the promised level and nothing else; a single call is told as it stands.
    """

    @property
    def durable(self) -> bool:
        """Whether there is anything to settle; the path of a call does not wait where there is not."""
        ...

    @property
    def append(self) -> Callable[[Fact], None]:
        """Takes one fact, without waiting for anything; it is kept for good once `settle` has returned.

        Asked for once, since it is called several times on the path of every call. A durable log raises `StoreError`
        if the fact holds what cannot be written, or if too many wait for a disk that fails.
        """
        ...

    def ended(self, chars: int) -> None:
        """Hear that a call has ended and brought so many characters with it; a log that forgets may do so now."""
        ...

    def settle(self) -> Awaitable[None]:
        """Give something to await: it is over once all that was taken before is kept at the promised level.

        Raises (when awaited):
            StoreError: it is not, and must not be handed out. It is not lost either: the next settle tries again.
        """
        ...

    @property
    def last(self) -> int:
        """The position of the newest fact; 0 if there never was one."""
        ...

    def read(self, after: int, limit: int) -> Sequence[tuple[int, Fact]]:
        """Give facts with their positions, oldest first; ones that retention took away are skipped."""
        ...

    def facts_of(self, invocation_id: InvocationId) -> Sequence[Fact]:
        """Give the facts of one call, oldest first, also those on their way; none if the call is not known."""
        ...

    def kept_of(self, invocation_id: InvocationId) -> Sequence[Fact]:
        """Give the facts of one call that are kept at the promised level: what may be handed out."""
        ...


class Head(Part, frozen=True, kw_only=True):
    """A place in the chain. Whoever keeps one elsewhere can tell later whether anything up to it was changed or cut."""

    position: int
    hash: str


class Flaw(Part, frozen=True, kw_only=True):
    """Something that is wrong at a position of the log, and what should be there."""

    position: int
    what: str
    expected: str
    found: str


class DurableLog(EventLog, Protocol):
    """A log that outlives the process, and in which nothing can be changed without a trace: each fact is chained.

    The promise fails closed. Where facts cannot be kept, everybody who waits for them gets a `StoreError`, no reader
    of the log sees them, and they stay in line, in order, for the next settle.
    """

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` whenever there may be something new to read, until the function given back is called."""
        ...

    def head(self) -> Head:
        """Give the end of the chain, to be kept where nobody who can write the log can reach it."""
        ...

    def verify(self, pinned: Head | None = None) -> Iterator[Flaw]:
        """Walk the chain and tell everything that is wrong with it, in memory that does not grow with the log.

        Args:
            pinned: a head from before; without one, nobody can tell that the chain was made anew.
        """
        ...

    async def let_go(self, before_ns: int) -> Head:
        """Let go of the oldest facts, up to the first that is not old enough or belongs to a call still open.

        What is left is chained to an anchor, the place and hash of the last fact that went, which is given back.
        """
        ...


class OpenCall(Part, frozen=True, kw_only=True):
    """A call under way, with what it takes to go on with it.

    Attributes:
        kind: at which point it stands, in the words of whoever holds it.
        body: the raw inputs; may hold secrets, and is gone when the call ends.
        approval_id: the question it waits for, if it does; or, by a prefix of its own, an answer that comes later.
        expires_at_ns: when it is too late to answer.
        owner: the process that has it; none if it was left to whoever hears the answer.
        answer: what was answered to its question, if it was.
    """

    invocation_id: InvocationId
    kind: str
    body: bytes
    approval_id: ApprovalId | None = None
    expires_at_ns: int | None = None
    owner: str | None = None
    answer: bytes | None = None


BEGUN = "begun"
"""The kind of a call that is only known to have begun: nobody held it, its body is empty, and the log has its facts."""


class GivenAnswer(Part, frozen=True, kw_only=True):
    """The one answer to a question; numbers count up in the order of answering.

    The body, which is never empty, goes once its call is held for something else or ends.
    """

    number: int
    approval_id: ApprovalId
    body: bytes


class Taken(ClosedEnum):
    """What became of an answer."""

    TAKEN = "taken"
    ANSWERED = "answered"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


class TakenForDead(StoreError):
    """This process said nothing for so long that others have its calls; under its name it can write nothing more."""


class OpenCalls(Protocol):
    """The calls under way, so that another process can take them up when this one dies.

    Each process is an *owner*, alive for as long as it said last (`renew`). What an owner holds is its own until that
    moment has passed; then one other may claim it, and the old one can write nothing any more, should it wake up again.
    Moments are brought by whoever asks: a store has no clock. Who is alive is told by the steady one, where two share
    it: somebody who sets the clock on the wall kills nobody.

    Where there is a durable log beside it, a call whose facts are there and whose end is not is open, too, held or not:
    as `BEGUN`, from the moment its owner has said that it is alive. No call is lost because nobody thought of it.
    """

    @property
    def owner(self) -> str:
        """The name of this process among owners."""
        ...

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
        """Keep what a call needs to go on, in place of what was kept for it before; for good at the next settle.

        Args:
            invocation_id: which call.
            kind: at which point it stands.
            body: what it takes to go on with it.
            approval_id: what it waits for.
            expires_at_ns: when it is too late to answer.
            due_at_ns: when there is something to do for it even without an answer; as it expires, if not given.
            is_left: it is nobody's from now on, and anybody may take it when it is due.
        """
        ...

    def release(self, invocation_id: InvocationId) -> None:
        """Let go of a call that ends. Together with its last fact, if nothing is awaited between the two."""
        ...

    async def settle(self) -> None:
        """Return once all that was held and released before is kept; where there is a log beside it, with its facts.

        Raises:
            StoreError: it is not.
        """
        ...

    async def renew(self, until: Moment) -> None:
        """Say that this owner is alive until then.

        Raises:
            TakenForDead: it was, meanwhile, and others have its calls.
            StoreError: it could not be said.
        """
        ...

    def begin_anew(self) -> Collection[InvocationId]:
        """Take another name after having been taken for dead; name the calls that are others' now.

        Nothing that is still to be said of those is kept: it would contradict what others say.
        """
        ...

    async def retire(self) -> None:
        """Say that this owner is no more; whatever it still holds may be claimed at once."""
        ...

    async def due(self, *, now: Moment, after: InvocationId | None = None, limit: int) -> Sequence[OpenCall]:
        """Give calls of dead owners that there is something to do for, the oldest first, and take none of them.

        That is every call but those that wait for an answer which has not come, before the moment they are due.
        """
        ...

    async def claim(self, *, now: Moment, limit: int) -> Sequence[OpenCall]:
        """Take calls that are due; nobody else gets them. They are given as their owners left them.

        Raises:
            StoreError: this owner is not alive itself.
        """
        ...

    async def take(self, invocation_id: InvocationId, *, now: Moment, if_due: bool = False) -> OpenCall | None:
        """Take one call of a dead owner, whatever it waits for; none if it is not there, or its owner lives.

        Args:
            invocation_id: which call.
            now: when.
            if_due: only if there is something to do for it, as in `due`; it may have gone on since somebody looked.

        Raises:
            StoreError: this owner is not alive itself.
        """
        ...

    async def get(self, invocation_id: InvocationId) -> OpenCall | None:
        """Give one call, as it was settled last."""
        ...

    async def by_approval(self, approval_id: ApprovalId) -> OpenCall | None:
        """Give the call that waits for the answer to this question."""
        ...

    async def page(self, *, after: InvocationId | None = None, limit: int) -> Sequence[OpenCall]:
        """Give open calls by age, the oldest first, from after one of them."""
        ...

    async def parked(self, *, after: ApprovalId | None = None, limit: int, prefix: str = "apr_") -> Sequence[OpenCall]:
        """Give calls that wait for an answer and have none, by the age of their questions, whose ids begin so."""
        ...

    async def answer(self, approval_id: ApprovalId, body: bytes, *, now_ns: int) -> Taken:
        """Give the answer to a question: once, by whoever is first in any process, and before it is too late."""
        ...

    async def was_answered(self, approval_id: ApprovalId) -> bool:
        """Tell whether a question was answered, which is known for longer than what was asked."""
        ...

    async def answers(self, *, after: int, limit: int) -> Sequence[GivenAnswer]:
        """Give answers that calls still wait for, those given after a number, in order."""
        ...


class PayloadStore(Protocol):
    """Bytes by their digest: written once, read many times, gone when retention says so."""

    async def put(self, data: bytes, digest: Digest) -> str:
        """Keep bytes and give the URI under which they can be fetched; keeping them twice is the same as once.

        Raises:
            StoreError: they could not be kept.
        """
        ...

    async def put_stream(self, chunks: AsyncIterable[bytes]) -> tuple[Digest, int]:
        """Keep bytes as they come, in little memory; give their digest and how many they were.

        Raises:
            StoreError: they could not be kept; nothing is left of them.
        """
        ...

    async def get(self, digest: Digest, *, start: int = 0, length: int | None = None) -> bytes | None:
        """Give bytes or a range of them; none if they are not there (any more).

        The whole is checked against its digest. A range cannot be, without reading the rest.

        Raises:
            StoreError: the bytes are not the ones that were put, or cannot be read.
        """
        ...

    def stream(self, digest: Digest) -> AsyncIterator[bytes]:
        """Give bytes piece by piece; the last piece comes only once the whole is known to be what was put.

        Raises (while it is read):
            StoreError: they are not there, are not the ones that were put, or cannot be read.
        """
        ...

    async def expire(self, before_ns: int) -> int:
        """Let go of bytes that nobody has put since a moment; tell how many there were."""
        ...
