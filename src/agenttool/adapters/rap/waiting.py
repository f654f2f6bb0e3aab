"""Requests that wait for their turn, in the order in which they may have one."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from typing import NamedTuple


class Errand(NamedTuple):
    """Whose request it is, and where it goes; those that agree in it are alike, and wait behind each other.

    Attributes:
        owner: for whom it is made.
        address: of the host; many places may be one host's.
        place: the name and port that are spoken to.
        yields: whether its turn may be taken back: it can be made again, and will be.
    """

    owner: Hashable
    address: str
    place: Hashable
    yields: bool = False


class Group(NamedTuple):
    """Whose errands they are, and whether those like them were answered last time."""

    owner: Hashable
    is_known: bool


class Turn:
    """The right to make one request, from a moment on; or the wait for it.

    Attributes:
        is_had: tells whoever waits for it.
        scopes: what it counts in while it is had.
        since: when it was had.
        clock: the end of its time.
    """

    __slots__ = ("clock", "errand", "is_had", "is_taken_back", "scopes", "since")

    def __init__(self, errand: Errand) -> None:
        """Take what it is for."""
        self.errand = errand
        self.is_had: asyncio.Future[None] | None = None
        self.scopes: tuple[Hashable, ...] = ()
        self.since = 0.0
        self.clock: asyncio.Timeout | None = None
        self.is_taken_back = False

    def take_back(self) -> None:
        """End its time now."""
        if self.clock is not None:
            self.is_taken_back = True
            self.clock.reschedule(asyncio.get_running_loop().time())


class Waiting:
    """One queue for each errand; those of a group come one after the other, and so do groups."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._groups: OrderedDict[Group, OrderedDict[Errand, deque[Turn]]] = OrderedDict()
        self._group_of: dict[Errand, Group] = {}

    def __bool__(self) -> bool:
        """Tell whether anybody waits."""
        return bool(self._groups)

    def groups(self) -> Iterator[tuple[Group, OrderedDict[Errand, "deque[Turn]"]]]:
        """Give the errands of each group, those first who have waited longest."""
        return iter(self._groups.items())

    def queue_of(self, errand: Errand) -> "deque[Turn] | None":
        """Give those who wait for an errand."""
        group = self._group_of.get(errand)
        return None if group is None else self._groups[group][errand]

    def add(self, group: Group, errand: Errand, queue: "deque[Turn]") -> None:
        """Let some wait, behind the others of their group; nobody waits for their errand yet."""
        if queue:
            self._groups.setdefault(group, OrderedDict())[errand] = queue
            self._group_of[errand] = group

    def drop(self, errand: Errand) -> "deque[Turn]":
        """Take those out who wait for an errand; their group comes after the others from now on."""
        group = self._group_of.pop(errand, None)
        if group is None:
            return deque()
        queue = self._groups[group].pop(errand)
        self._groups.move_to_end(group)
        if not self._groups[group]:
            del self._groups[group]
        return queue
