"""What is kept: the log of facts, and the bytes of large results."""

from collections.abc import Callable, Sequence
from typing import Protocol

from agenttool.ports.facts import Fact
from agenttool.records import Digest, InvocationId


class EventLog(Protocol):
    """All facts, in order. What was appended is never changed; positions count from 1 and never move."""

    @property
    def append(self) -> Callable[[Fact], None]:
        """Keeps one fact; asked for once, since it is called several times on the path of every call."""
        ...

    def ended(self, chars: int) -> None:
        """Hear that a call has ended and brought so many characters with it; a log that forgets may do so now."""
        ...

    @property
    def last(self) -> int:
        """The position of the newest fact; 0 if there is none."""
        ...

    def read(self, after: int, limit: int) -> Sequence[tuple[int, Fact]]:
        """Give facts with their positions, oldest first; ones that retention took away are skipped."""
        ...

    def facts_of(self, invocation_id: InvocationId) -> Sequence[Fact]:
        """Give the facts of one call, oldest first; none if the call is not known."""
        ...


class PayloadStore(Protocol):
    """Bytes by their digest: written once, read many times, gone when retention says so."""

    async def put(self, data: bytes, digest: Digest) -> str:
        """Keep bytes and give the URI under which they can be fetched; keeping them twice is the same as once."""
        ...

    async def get(self, digest: Digest, *, start: int = 0, length: int | None = None) -> bytes | None:
        """Give bytes or a range of them; none if they are not there (any more)."""
        ...
