"""Asking servers what they offer: once at the beginning, and those that do not say, again until they do."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from agenttool.adapters.rap.courier import Courier
from agenttool.adapters.rap.declare import Toolset, discover
from agenttool.adapters.rap.settings import RapSource
from agenttool.errors import StoreError
from agenttool.ports.surfacing import ProviderState

log = logging.getLogger("agenttool.rap")

FIRST_ANSWER_S = 5.0
"""How long a runtime that opens waits for servers to say what they offer."""

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0
"""How soon a server that is away is asked again at first, and how seldom at last, as is one that answers nonsense."""

_MOST_DOUBLED = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a server is from offering its tools.

    Attributes:
        source: the name of the server.
        state: `connecting` as long as nobody answers, `unavailable` if what it answers cannot be used.
        since_ns: since when it is awaited; of one that is ready, when it said what it offers.
        tries: how often it was asked.
        fault: why nothing of it is offered; names no address and no secret.
        next_try_at_ns: when it is asked again.
    """

    source: str
    state: ProviderState
    since_ns: int
    tries: int = 1
    fault: str | None = None
    next_try_at_ns: int | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it has said what it offers; then it is not asked again, for that holds as long as the runtime."""
        return self.state is ProviderState.READY


class Discovery:
    """What each server of a runtime said that it offers, as far as it was heard."""

    def __init__(
        self, sources: Iterable[RapSource], couriers: Mapping[str, Courier], now_ns: Callable[[], int]
    ) -> None:
        """Take whom to ask, who carries the question, and the time."""
        self._sources = tuple(sources)
        self._couriers = couriers
        self._now_ns = now_ns
        self._toolsets: dict[str, Toolset] = {}
        self._standings: dict[str, Standing] = {}
        self._asking: list[asyncio.Task[None]] = []
        self._signs: dict[str, asyncio.Event] = {each.name: asyncio.Event() for each in self._sources}

    @property
    def toolsets(self) -> tuple[Toolset, ...]:
        """What was heard last of each server, in the order in which they are named."""
        return tuple(self._toolsets[each.name] for each in self._sources)

    @property
    def standings(self) -> tuple[Standing, ...]:
        """How far each server is."""
        return tuple(self._standings[each.name] for each in self._sources)

    async def begin(self) -> None:
        """Ask every server once, all at the same time; one that takes its time is waited for in the background."""
        await asyncio.gather(*map(self._ask_first, self._sources))

    def go_on(self, heard: Callable[[], Awaitable[None]]) -> None:
        """Ask those again that did not say, in the background; each that is further than before is `heard` of."""
        for source in self._sources:
            if not self._standings[source.name].is_ready:
                asking = self._until_it_says(source, self._planned(source), heard)
                self._asking.append(asyncio.create_task(asking))  # noqa: TID251 -- `stop` is its parent

    def saw(self, name: str) -> None:
        """Hear that a server gave a sign of life; one that was away is asked soon."""
        standing = self._standings.get(name)
        if standing is not None and standing.state is ProviderState.CONNECTING:
            self._signs[name].set()

    async def stop(self) -> None:
        """Ask nobody any more."""
        asking, self._asking = self._asking, []
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)

    async def _until_it_says(self, source: RapSource, delay_s: float, heard: Callable[[], Awaitable[None]]) -> None:
        while not (before := self._standings[source.name]).is_ready:
            await self._rest(self._signs[source.name], delay_s)
            await self._ask(source)
            delay_s = self._planned(source)
            if self._standings[source.name].state is not before.state:
                await _told(heard)

    def _planned(self, source: RapSource) -> float:
        """Say for how long to leave a server alone, and note when it is asked again, for others to know."""
        standing = self._standings[source.name]
        delay_s = _delay(standing)
        if not standing.is_ready:
            next_ns = self._now_ns() + round(delay_s * 1e9)
            self._standings[source.name] = replace(standing, next_try_at_ns=next_ns)
        return delay_s

    async def _rest(self, sign: asyncio.Event, delay_s: float) -> None:
        """Leave a server alone for so long, or until it gives a sign; however many it gives, for a moment at least."""
        least_s = min(delay_s, FIRST_DELAY_S)
        await asyncio.sleep(least_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s - least_s):
                await sign.wait()
        sign.clear()

    async def _ask_first(self, source: RapSource) -> None:
        try:
            async with asyncio.timeout(FIRST_ANSWER_S):
                await self._ask(source)
        except TimeoutError:
            fault = (
                f"the server {source.name!r} does not say what it offers within {FIRST_ANSWER_S:g} s; it is asked again"
            )
            self._take(source, Toolset(source=source, fault=fault, is_away=True))

    async def _ask(self, source: RapSource) -> None:
        self._take(source, await discover(source, self._couriers[source.name]))

    def _take(self, source: RapSource, found: Toolset) -> None:
        before = self._standings.get(source.name)
        standing = Standing(source=source.name, state=_state(found), since_ns=self._now_ns(), fault=found.fault)
        if before is not None:
            since_ns = before.since_ns if before.is_ready is standing.is_ready else standing.since_ns
            standing = replace(standing, since_ns=since_ns, tries=before.tries + 1)
            _log(before, standing)
        self._toolsets[source.name], self._standings[source.name] = found, standing


async def _told(heard: Callable[[], Awaitable[None]]) -> None:
    """Let others hear of it, as often as it takes: a disk that fails now may be back soon."""
    while True:
        try:
            return await heard()
        except StoreError as error:
            log.error("what a server offers cannot be written down: %s", error)  # noqa: TRY400 -- the words are enough
            await asyncio.sleep(LONGEST_DELAY_S)


def _state(found: Toolset) -> ProviderState:
    if found.manifest is not None:
        return ProviderState.READY
    return ProviderState.CONNECTING if found.is_away else ProviderState.UNAVAILABLE


def _delay(standing: Standing) -> float:
    """Say how long to leave a server alone; never all at the same time, should many runtimes wait for it."""
    longest = LONGEST_DELAY_S
    if standing.state is ProviderState.CONNECTING:
        longest = min(FIRST_DELAY_S * 2 ** min(standing.tries - 1, _MOST_DOUBLED), longest)
    return random.uniform(longest / 2, longest)  # noqa: S311 -- nobody gains by guessing it


def _log(before: Standing, standing: Standing) -> None:
    """Tell that the waiting is over, and as long as it is not, less and less: at the second try, the fourth, and so on.

    What is wrong in another way than before is told by whoever hears of it.
    """
    if standing.is_ready:
        log.warning("the server %r says what it offers now, asked %d times", standing.source, standing.tries)
    elif standing.state is before.state and (standing.fault != before.fault or standing.tries.bit_count() == 1):
        log.warning("%s (asked %d times)", standing.fault, standing.tries)
