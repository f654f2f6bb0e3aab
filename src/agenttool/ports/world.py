"""The ports of clocks, ids and the user of the process, which tests replace."""

from typing import NamedTuple, Protocol, TypeVar

from agenttool.records import IdKind

_Id = TypeVar("_Id", bound=str)


class Moment(NamedTuple):
    """A time on two clocks: the wall clock, which users can set, and a monotonic clock, which they cannot.

    Attributes:
        now_ns: nanoseconds since 1970.
        steady_ns: nanoseconds on the monotonic clock.
        since: identifies the start of the monotonic clock; only times with the same start can be compared. Empty if
            there is no such clock.
    """

    now_ns: int
    steady_ns: int = 0
    since: str = ""

    def after(self, nanoseconds: int) -> "Moment":
        """Return the moment that is this many nanoseconds later."""
        return Moment(self.now_ns + nanoseconds, self.steady_ns + nanoseconds, self.since)

    def is_before(self, later: "Moment") -> bool:
        """Return whether this moment is the earlier one, by the monotonic clock if both have the same."""
        if self.since and self.since == later.since:
            return self.steady_ns < later.steady_ns
        return self.now_ns < later.now_ns


class Clock(Protocol):
    """Returns the time."""

    def now_ns(self) -> int:
        """Return the wall-clock time in nanoseconds since 1970. A log is ordered by position, never by time."""
        ...

    def moment(self) -> Moment:
        """Return the time on both clocks; leases are compared by the monotonic one."""
        ...


class OsUser(NamedTuple):
    """The operating-system user of a process; the name is none if the system has none for the id."""

    uid: int
    name: str | None = None


class IdSource(Protocol):
    """Generates ids."""

    def unique(self) -> str:
        """Return a new unique id of 32 hexadecimal digits; ids sort by time."""
        ...

    def secret(self) -> bytes:
        """Return 32 new random bytes that cannot be guessed."""
        ...

    def new(self, kind: IdKind[_Id]) -> _Id:
        """Return a new id of a kind."""
        ...
