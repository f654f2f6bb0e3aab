"""Time, identity and chance, which the core never makes itself."""

from typing import NamedTuple, Protocol, TypeVar

from agenttool.records import IdKind

_Id = TypeVar("_Id", bound=str)


class Moment(NamedTuple):
    """A moment by two clocks: the one on the wall, which people set, and a steady one, which nobody can.

    Attributes:
        now_ns: nanoseconds since 1970.
        steady_ns: nanoseconds since something that happened once.
        since: what that was; steady moments since different things cannot be compared. Empty if there is no such clock.
    """

    now_ns: int
    steady_ns: int = 0
    since: str = ""

    def after(self, nanoseconds: int) -> "Moment":
        """Give the moment so much later."""
        return Moment(self.now_ns + nanoseconds, self.steady_ns + nanoseconds, self.since)

    def is_before(self, later: "Moment") -> bool:
        """Tell which of two came first, by the steady clock if both have the same."""
        if self.since and self.since == later.since:
            return self.steady_ns < later.steady_ns
        return self.now_ns < later.now_ns


class Clock(Protocol):
    """Where the time comes from."""

    def now_ns(self) -> int:
        """Give the wall-clock time in nanoseconds since 1970. Order in a log is by place, never by time."""
        ...

    def moment(self) -> Moment:
        """Give the time by both clocks; who asks for how long somebody was silent goes by the steady one."""
        ...


class IdSource(Protocol):
    """Where ids come from."""

    def unique(self) -> str:
        """Give 32 hexadecimal digits that nobody was given before and that sort by time."""
        ...

    def secret(self) -> bytes:
        """Give 32 bytes that nobody can guess, and that nobody else is given."""
        ...

    def new(self, kind: IdKind[_Id]) -> _Id:
        """Give a fresh id of a kind."""
        ...
