"""Connections to other hosts: each lent to one request at a time, and kept for the next one to the same place."""

import asyncio
import ipaddress
import ssl
from contextlib import suppress
from functools import cache, lru_cache
from typing import NamedTuple

import certifi

from agenttool.adapters.rap.exchange import Answer, Connection
from agenttool.adapters.rap.forgery import Reach, resolve
from agenttool.adapters.rap.names import Names
from agenttool.adapters.rap.turns import Shares, Turns
from agenttool.adapters.rap.waiting import Errand

MOST_AT_REST = 100


class Terms(NamedTuple):
    """On what terms a request is made.

    Attributes:
        caller: who has it made, and shares turns and lookups with others; if nobody is known, whoever is behind the
            address that it leads to.
        comes_again: whether it may be given up when others wait, since it will be made again.
        only_once: whether it must not be sent anew even where a kept connection turned out to be closed.
    """

    caller: str = ""
    comes_again: bool = False
    only_once: bool = False


PLAIN = Terms()


class Place(NamedTuple):
    """Where a connection leads."""

    host: str
    port: int
    is_tls: bool


class Connections:
    """No more at work than allowed, and some at rest, for a while: a burst is often followed by another."""

    def __init__(self, reach: Reach, names: Names, shares: Shares, *, rest_s: float) -> None:
        """Take where they may lead, who knows names, how many there may be, and how long one may rest."""
        self._reach = reach
        self._names = names
        self._turns = Turns(shares)
        self._rest_s = rest_s
        self._at_rest: list[tuple[Place, Connection, float]] = []
        self._sweep: asyncio.TimerHandle | None = None

    async def exchange(self, place: Place, request: bytes, most: int, terms: Terms = PLAIN) -> Answer:
        """Send a request to a place when it is its turn, and give the answer, of whose body so many bytes are wanted.

        Raises:
            RecordError: the place may not be contacted.
            OSError: it cannot be reached, the connection failed, or what came is no answer.
            UnicodeError: its name cannot be one.
        """
        address, found = self._rests_at(place), None
        if address is None:
            found = await resolve(place.host, self._reach, self._names, terms.caller)
            address = found[0]
        owner = ("caller", terms.caller) if terms.caller else ("near", _near(address))
        async with self._turns.take(Errand(owner, address, place, terms.comes_again)):
            kept = self._rested(place)
            if kept is not None:
                try:
                    return await self._use(kept, place, request, most)
                except ConnectionError:  # it was closed over there while this was on its way
                    if kept.has_heard or terms.only_once:
                        raise
            found = found or await resolve(place.host, self._reach, self._names, terms.caller)
            return await self._use(await _connect(place, found), place, request, most)

    async def _use(self, connection: Connection, place: Place, request: bytes, most: int) -> Answer:
        try:
            answer = await connection.exchange(request, most)
        except BaseException:  # also if nobody waits any more, though the answer is there
            connection.close()
            raise
        if connection.is_open:
            self._let_rest(place, connection)
        return answer

    async def close(self) -> None:
        """Close those at rest."""
        if self._sweep is not None:
            self._sweep.cancel()
        while self._at_rest:
            self._at_rest.pop()[1].close()

    def _rests_at(self, place: Place) -> str | None:
        """Tell which address a connection that rests there leads to."""
        return next((each.address for at, each, _ in self._at_rest if at == place and each.is_open), None)

    def _rested(self, place: Place) -> Connection | None:
        """Give the one that rested last and still holds."""
        for position in reversed(range(len(self._at_rest))):
            if self._at_rest[position][0] == place:
                connection = self._at_rest.pop(position)[1]
                if connection.is_open:
                    return connection
        return None

    def _let_rest(self, place: Place, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        self._at_rest.append((place, connection, loop.time()))
        if len(self._at_rest) > MOST_AT_REST:
            self._at_rest.pop(0)[1].close()
        if self._sweep is None:
            self._sweep = loop.call_later(self._rest_s, self._close_the_rested, loop)

    def _close_the_rested(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close those that have rested for long; the oldest come first."""
        while self._at_rest and self._at_rest[0][2] <= loop.time() - self._rest_s:
            self._at_rest.pop(0)[1].close()
        self._sweep = None
        if self._at_rest:
            self._sweep = loop.call_later(self._rest_s, self._close_the_rested, loop)


async def _connect(place: Place, addresses: list[str]) -> Connection:
    """Connect to the first address that answers; all were judged. TLS still checks the name that the URL has."""
    for address in addresses[:-1]:
        with suppress(OSError):
            return await _connected(place, address)
    return await _connected(place, addresses[-1])


async def _connected(place: Place, address: str) -> Connection:
    name, secured = (place.host, tls()) if place.is_tls else (None, None)
    connect = asyncio.get_running_loop().create_connection
    _, connection = await connect(Connection, address, place.port, ssl=secured, server_hostname=name)
    return connection


@cache
def tls() -> ssl.SSLContext:
    """Make the context once: reading the certificates takes a tenth of a second."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


@lru_cache(maxsize=4096)
def _near(address: str) -> str:
    """Give what all addresses have alike that one host may well have: of the longer kind it is given plenty."""
    known = ipaddress.ip_address(address.partition("%")[0])
    return str(known) if known.version == 4 else str(ipaddress.ip_network((known, 64), strict=False))  # noqa: PLR2004 -- IP's own
