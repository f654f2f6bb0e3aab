"""Turns, and the line before one resource in which they stand in order of arrival."""

from asyncio import Future
from collections import deque
from collections.abc import Iterator

from agenttool.records import Live
from agenttool.scheduler.locks import Claim


class Turn(Live, eq=False):
    """The right to run, asked for or held.

    Attributes:
        alone: nobody runs beside it, by right and not by luck.
        locks: the resources it claims besides.
        within: the turn of the call that made this one.
        nested: how many calls that it made are in the gate, waiting or running.
        busy: how many of those are running.
        missing: in how many lines somebody still stands before it.
    """

    alone: bool = False
    running: bool = False
    locks: tuple[Claim, ...] = ()
    within: "Turn | None" = None
    nested: int = 0
    busy: int = 0
    over: bool = False
    ticket: int = 0
    missing: int = 0
    started: "Future[None] | None" = None

    def ancestors(self) -> Iterator["Turn"]:
        """Give the turns of the calls that led to this one, nearest first."""
        turn = self.within
        while turn is not None:
            yield turn
            turn = turn.within

    def is_within(self, other: "Turn") -> bool:
        """Tell whether the other's call led to this one; such calls are never in each other's way."""
        return any(ancestor is other for ancestor in self.ancestors())

    def conflicts_with(self, other: "Turn") -> bool:
        """Tell whether the two must not run at once."""
        if self.alone or other.alone:
            return True
        theirs = dict(other.locks)
        return any(resource in theirs and (exclusive or theirs[resource]) for resource, exclusive in self.locks)


SHARED = Turn(running=True)
"""The turn of everyone who runs beside others and claims nothing: such calls are counted, not told apart."""


class Line:
    """Everybody who wants one resource, in order of arrival; those inside are in nobody's way there.

    Attributes:
        inside: who is inside, and whether exclusively.
        shared: how many are inside besides, each by the turn `SHARED`.
    """

    __slots__ = ("exclusives", "inside", "shared", "waiting")

    def __init__(self) -> None:
        """Start empty."""
        self.inside: dict[Turn, bool] = {}
        self.shared = 0
        self.exclusives = 0
        self.waiting: deque[tuple[Turn, bool]] = deque()

    def admits(self, *, exclusive: bool) -> bool:
        """Tell whether a newcomer would be inside at once."""
        return not self.waiting and not self.bars(exclusive=exclusive)

    def bars(self, *, exclusive: bool) -> bool:
        """Tell whether those inside keep others out."""
        return bool(self.inside) or self.shared > 0 if exclusive else self.exclusives > 0

    def enter(self, turn: Turn, *, exclusive: bool) -> None:
        """Put a turn inside, past everyone who waits."""
        self.inside[turn] = exclusive
        self.exclusives += exclusive

    def join(self, turn: Turn, *, exclusive: bool) -> bool:
        """Stand in line, and tell whether that already means inside."""
        if self.admits(exclusive=exclusive):
            self.enter(turn, exclusive=exclusive)
            return True
        self.waiting.append((turn, exclusive))
        return False

    def quit(self, turn: Turn) -> list[Turn]:
        """Take a turn that is over out of the line, and give those who came inside by that."""
        if turn is SHARED:
            self.shared -= 1
        else:
            self.exclusives -= self.inside.pop(turn, False)
        entered: list[Turn] = []
        while self.waiting:
            first, exclusive = self.waiting[0]
            if not first.over:
                if self.bars(exclusive=exclusive):
                    break
                self.enter(first, exclusive=exclusive)
                entered.append(first)
            self.waiting.popleft()
        return entered
