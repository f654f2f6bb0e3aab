"""Time, identity and chance, which the core never makes itself."""

from typing import Protocol, TypeVar

from agenttool.records import IdKind

_Id = TypeVar("_Id", bound=str)


class Clock(Protocol):
    """Where the time comes from."""

    def now_ns(self) -> int:
        """Give the wall-clock time in nanoseconds since 1970. Order in a log is by place, never by time."""
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
