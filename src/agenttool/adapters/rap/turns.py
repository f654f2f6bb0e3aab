"""Turns at making requests, shared fairly: whoever lets some of them stall holds up nobody but itself.

A request has its turn at once while there is room: in all, for whoever has it made, at the address it goes to, and for
those that are like it. Else it waits, and the next turn goes to whoever has the fewest. A quarter of them is for those
whose like were answered last time. Turns that got no answer for a while are taken back for those who have fewer, and
whatever stalled is left alone for a while, longer each time.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator, Hashable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain, islice

from agenttool.adapters.rap.waiting import Errand, Group, Turn, Waiting

FIRST_REST_S, LONGEST_REST_S = 0.5, 30.0
_REMEMBERED = 10_000
"""Of so many kinds of errands it is known how the last one ended; the others count as new."""

_SEEN = 64
"""So many of those who wait are looked at in one go, the first ones first."""

_OTHERS_WAITED = "no answer for a while, and others waited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How many turns there are at a time.

    Attributes:
        most: in all.
        each: for one owner, and for one address.
        alike: for one owner at one place.
        within_s: how long one lasts, from when it is had.
        wait_s: how long it may be waited for; none for as long as it takes.
        patience_s: after so long without an answer, one that yields may be taken back.
    """

    most: int
    each: int
    alike: int
    within_s: float
    wait_s: float | None
    patience_s: float = 1.0


class Turns:
    """Gives turns and takes them back."""

    def __init__(self, shares: Shares) -> None:
        """Take how many there are."""
        self._shares = shares
        self._held: dict[Turn, None] = {}
        self._counts: Counter[Hashable] = Counter()
        self._waiting = Waiting()
        self._resting: dict[Errand, deque[Turn]] = {}
        self._stalls: OrderedDict[Errand, int] = OrderedDict()
        self._alarm: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def take(self, errand: Errand) -> AsyncGenerator[None]:
        """Have a turn, once it comes.

        Raises:
            TimeoutError: there was no turn in time, its time is over, or it was taken back.
        """
        turn = Turn(errand)
        if errand in self._resting or self._full(errand):
            await self._wait(turn)
        else:
            self._enter(turn)
        try:
            async with asyncio.timeout(self._shares.within_s) as turn.clock:
                yield
        except TimeoutError:
            self._note_stall(errand)
            told = f"no answer within {self._shares.within_s:g} seconds"
            raise TimeoutError(_OTHERS_WAITED if turn.is_taken_back else told) from None
        else:
            self._note_answer(errand)
        finally:
            self._leave(turn)

    async def _wait(self, turn: Turn) -> None:
        queue = self._queue_of(turn.errand)
        if queue is None:
            self._waiting.add(self._group_of(turn.errand), turn.errand, deque([turn]))
        else:
            queue.append(turn)
        turn.is_had = asyncio.get_running_loop().create_future()
        self._set_alarm()
        try:
            async with asyncio.timeout(self._shares.wait_s):
                await turn.is_had
        except TimeoutError:
            self._withdraw(turn)
            raise TimeoutError(f"no turn within {self._shares.wait_s:g} seconds") from None
        except BaseException:
            self._withdraw(turn)
            raise

    def _queue_of(self, errand: Errand) -> "deque[Turn] | None":
        resting = self._resting.get(errand)
        return self._waiting.queue_of(errand) if resting is None else resting

    def _withdraw(self, turn: Turn) -> None:
        """Let go of a turn that nobody waits for any more; it may have come in the same moment."""
        if turn in self._held:
            self._leave(turn)
            return
        queue = self._queue_of(turn.errand)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue and turn.errand not in self._resting:
                self._waiting.drop(turn.errand)

    def _enter(self, turn: Turn) -> None:
        turn.since = asyncio.get_running_loop().time()
        turn.scopes = tuple(self._limits_of(turn.errand))
        for scope in turn.scopes:
            self._counts[scope] += 1
        self._held[turn] = None

    def _leave(self, turn: Turn) -> None:
        del self._held[turn]
        for scope in turn.scopes:
            self._counts[scope] -= 1
            if not self._counts[scope]:
                del self._counts[scope]
        self._admit()

    def _admit(self) -> None:
        """Give turns to those who wait, as long as there is room; the others of their queue come after all others."""
        while self._waiting and (errand := self._next()) is not None:
            queue = self._waiting.drop(errand)
            turn = queue.popleft()
            if turn.is_had is not None and not turn.is_had.done():  # or else whoever waited has just left
                self._enter(turn)
                turn.is_had.set_result(None)
            self._waiting.add(self._group_of(errand), errand, queue)

    def _next(self) -> Errand | None:
        """Choose among those for whom there is room one whose owner has the fewest turns."""
        found, fewest = None, self._shares.each
        for group, queues in self._waiting.groups():
            had = self._counts["owner", group.owner]
            if had < fewest:
                errand = next((each for each in islice(queues, _SEEN) if not self._full(each)), None)
                found, fewest = (found, fewest) if errand is None else (errand, had)
        return found

    def _limits_of(self, errand: Errand) -> dict[Hashable, int]:
        """List what a turn would count in, and how many may; what stalled last time is tried one at a time."""
        shares, stalls = self._shares, self._stalls.get(errand)
        limits: dict[Hashable, int] = {
            "all": shares.most,
            ("owner", errand.owner): shares.each,
            ("address", errand.address): shares.each,
            errand: 1 if stalls else shares.alike,
        }
        if stalls != 0 and errand.yields:
            limits["new"] = max(1, shares.most * 3 // 4)
            limits["new", errand.owner] = max(1, shares.each * 3 // 4)
        return limits

    def _full(self, errand: Errand) -> set[Hashable]:
        """Tell what keeps an errand from its turn."""
        return {scope for scope, most in self._limits_of(errand).items() if self._counts[scope] >= most}

    def _group_of(self, errand: Errand) -> Group:
        return Group(errand.owner, self._stalls.get(errand) == 0)

    def _set_alarm(self) -> None:
        if self._alarm is None and self._waiting:
            self._alarm = asyncio.get_running_loop().call_later(self._shares.patience_s / 4, self._look)

    def _look(self) -> None:
        """Take turns back for those who wait: for each the oldest that makes room for it."""
        self._alarm = None
        by_now = asyncio.get_running_loop().time() - self._shares.patience_s
        idle = [each for each in self._held if each.since <= by_now and each.errand.yields and not each.is_taken_back]
        for errand in islice(self._by_need(), _SEEN):
            full, weight = self._full(errand), self._weight(errand)
            found = (each for each in idle if full.issubset(each.scopes) and self._weight(each.errand) > weight)
            turn = next(found, None)
            if turn is not None:
                idle.remove(turn)
                turn.take_back()
        self._set_alarm()

    def _by_need(self) -> Iterator[Errand]:
        groups = list(self._waiting.groups())
        groups.sort(key=lambda each: (self._counts["owner", each[0].owner], not each[0].is_known))
        return chain.from_iterable(queues for _, queues in groups)

    def _weight(self, errand: Errand) -> tuple[int, int]:
        return self._counts["owner", errand.owner], self._counts[errand]

    def _note_answer(self, errand: Errand) -> None:
        if self._stalls.get(errand) != 0:
            queue = self._waiting.drop(errand)
            self._remember(errand, 0)
            self._waiting.add(self._group_of(errand), errand, queue)
        else:
            self._stalls.move_to_end(errand)

    def _note_stall(self, errand: Errand) -> None:
        """Let errands like one that stalled rest; many may have stalled together, and count as one."""
        if not errand.yields or errand in self._resting:
            return
        stalls = self._stalls.get(errand, 0)
        self._resting[errand] = self._waiting.drop(errand)
        self._remember(errand, stalls + 1)
        rest_s = min(FIRST_REST_S * 2 ** min(stalls, 10), LONGEST_REST_S)
        asyncio.get_running_loop().call_later(rest_s, self._wake, errand)

    def _wake(self, errand: Errand) -> None:
        self._waiting.add(self._group_of(errand), errand, self._resting.pop(errand))
        self._admit()
        self._set_alarm()

    def _remember(self, errand: Errand, stalls: int) -> None:
        self._stalls[errand] = stalls
        self._stalls.move_to_end(errand)
        if len(self._stalls) > _REMEMBERED:
            self._stalls.popitem(last=False)
