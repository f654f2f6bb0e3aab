"""Names of hosts, looked up in a few threads of their own: a name service that stalls holds up nothing but names."""

import asyncio
import socket
import threading
from collections import Counter
from contextlib import suppress

MOST = 32
MOST_ALIKE = 4
"""So many lookups at a time, and so many of names in one domain: whoever owns it can let each of them stall."""

LIMIT_S = 5.0
"""A name that nobody has found within this time counts as one that cannot be found now."""


class Names:
    """Looks names up, each by one thread however many ask for it.

    Nobody can stop such a thread, so it counts until it ends by itself. A pool would be waited for when the program
    ends, and the loop's own pool has other work to do.
    """

    def __init__(self) -> None:
        """Begin with no lookup under way."""
        self._under_way: dict[str, asyncio.Future[list[str]]] = {}

    async def addresses_of(self, host: str) -> list[str]:
        """Give the addresses that a name has.

        Raises:
            OSError: it has none, nobody could be asked, or too many were asked for already; it may be found later.
            UnicodeError: it cannot be a name.
        """
        lookup = self._under_way.get(host) or self._begin(host)
        async with asyncio.timeout(LIMIT_S):
            return await asyncio.shield(lookup)

    def _begin(self, host: str) -> "asyncio.Future[list[str]]":
        alike = Counter(map(_domain_of, self._under_way))
        if len(self._under_way) >= MOST or alike[_domain_of(host)] >= MOST_ALIKE:
            raise OSError("too many names are looked up already; try again later")
        loop = asyncio.get_running_loop()
        lookup: asyncio.Future[list[str]] = loop.create_future()
        try:
            threading.Thread(target=_look_up, args=(host, lookup, loop), name="agenttool-names", daemon=True).start()
        except RuntimeError as error:
            raise OSError("there is no thread to look a name up; try again later") from error
        lookup.add_done_callback(lambda done: self._end(host, done))
        self._under_way[host] = lookup
        return lookup

    def _end(self, host: str, lookup: "asyncio.Future[list[str]]") -> None:
        del self._under_way[host]
        if not lookup.cancelled():
            lookup.exception()  # whoever asked may have left


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
