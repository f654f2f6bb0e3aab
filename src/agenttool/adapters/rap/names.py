"""Names of hosts, looked up in a few threads of their own: a name service that stalls holds up nothing but names.

Whoever owns a domain can let each of its names stall, and nobody can stop a thread that looks one up. So there are
only so many lookups at a time: for one caller, in one domain, and but a few for domains that let one stall before.
Domains that answered have room that no others have.
"""

import asyncio
import socket
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

LIMIT_S = 5.0
"""A name that nobody has found within this time counts as one that cannot be found now."""

SLOW_S = 1.0
"""A lookup that takes longer lets its domain count as one that stalls."""

MOST_EACH = 8
"""So many lookups at a time for one caller that is known."""

_REMEMBERED = 10_000


class Standing(Enum):
    """What is known of a domain.

    Attributes:
        each: how many names of one such domain may be looked up at a time.
        alike: how many of all such domains.
        most: how many lookups of any kind there may be for one more of these.
    """

    ANSWERS = (4, 64, 96)
    NEW = (2, 24, 64)
    STALLS = (1, 8, 64)

    def __init__(self, each: int, alike: int, most: int) -> None:
        """Take the limits."""
        self.each = each
        self.alike = alike
        self.most = most


@dataclass(slots=True)
class _Lookup:
    domain: str
    caller: str
    found: "asyncio.Future[list[str]]"
    began: float = field(default_factory=time.monotonic)

    @property
    def is_slow(self) -> bool:
        return time.monotonic() - self.began > SLOW_S


class Names:
    """Looks names up, each by one thread however many ask for it.

    A thread counts until it ends by itself. A pool would be waited for when the program ends, and the loop's own pool
    has other work to do.
    """

    def __init__(self) -> None:
        """Begin with no lookup under way."""
        self._under_way: dict[str, _Lookup] = {}
        self._standings: OrderedDict[str, Standing] = OrderedDict()

    async def addresses_of(self, host: str, caller: str = "") -> list[str]:
        """Give the addresses that a name has.

        Raises:
            OSError: it has none, nobody could be asked, or too many were asked for already; it may be found later.
            UnicodeError: it cannot be a name.
        """
        lookup = self._under_way.get(host)
        if lookup is None:
            lookup = self._begin(host, caller)
        async with asyncio.timeout(LIMIT_S):
            return await asyncio.shield(lookup.found)

    def _begin(self, host: str, caller: str) -> _Lookup:
        if not self._has_room(_domain_of(host), caller):
            raise OSError("too many names are looked up already; try again later")
        loop = asyncio.get_running_loop()
        lookup = _Lookup(_domain_of(host), caller, loop.create_future())
        given = (host, lookup.found, loop)
        try:
            threading.Thread(target=_look_up, args=given, name="agenttool-names", daemon=True).start()
        except RuntimeError as error:
            raise OSError("there is no thread to look a name up; try again later") from error
        lookup.found.add_done_callback(lambda _: self._end(host))
        self._under_way[host] = lookup
        return lookup

    def _has_room(self, domain: str, caller: str) -> bool:
        under_way, standing = self._under_way.values(), self._standing_of(domain)
        each = sum(lookup.domain == domain for lookup in under_way)
        alike = sum(self._standing_of(lookup.domain) is standing for lookup in under_way)
        own = sum(lookup.caller == caller for lookup in under_way) if caller else 0
        return each < standing.each and alike < standing.alike and len(under_way) < standing.most and own < MOST_EACH

    def _standing_of(self, domain: str) -> Standing:
        if any(lookup.domain == domain and lookup.is_slow for lookup in self._under_way.values()):
            return Standing.STALLS
        return self._standings.get(domain, Standing.NEW)

    def _end(self, host: str) -> None:
        """Remember what a domain did last."""
        lookup = self._under_way.pop(host)
        self._standings[lookup.domain] = Standing.STALLS if lookup.is_slow else Standing.ANSWERS
        self._standings.move_to_end(lookup.domain)
        if len(self._standings) > _REMEMBERED:
            self._standings.popitem(last=False)
        if not lookup.found.cancelled():
            lookup.found.exception()  # whoever asked may have left


def _look_up(host: str, lookup: "asyncio.Future[list[str]]", loop: asyncio.AbstractEventLoop) -> None:
    found: list[str] | Exception
    try:
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as error:
        found = error
    with suppress(RuntimeError):  # the loop is gone, and nobody waits any more
        loop.call_soon_threadsafe(_tell, lookup, found)


def _tell(lookup: "asyncio.Future[list[str]]", found: list[str] | Exception) -> None:
    if isinstance(found, Exception):
        lookup.set_exception(found)
    else:
        lookup.set_result(found)


def _domain_of(host: str) -> str:
    return ".".join(host.lower().rstrip(".").split(".")[-2:])
