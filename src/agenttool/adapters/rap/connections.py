"""Connections to other hosts: each lent to one request at a time, and kept for the next one to the same place."""

import asyncio
import ssl
from contextlib import suppress
from functools import cache
from typing import NamedTuple

import certifi

from agenttool.adapters.rap.exchange import Answer, Connection
from agenttool.adapters.rap.forgery import Reach, resolve
from agenttool.adapters.rap.names import Names


class Place(NamedTuple):
    """Where a connection leads."""

    host: str
    port: int
    is_tls: bool


class Connections:
    """No more at work than allowed, and as many at rest, for a while: a burst is often followed by another."""

    def __init__(self, reach: Reach, names: Names, *, most: int, rest_s: float) -> None:
        """Take where they may lead, who knows names, how many there may be, and how long one may rest."""
        self._reach = reach
        self._names = names
        self._turns = asyncio.Semaphore(most)
        self._most = most
        self._rest_s = rest_s
        self._at_rest: list[tuple[Place, Connection, float]] = []
        self._sweep: asyncio.TimerHandle | None = None

    async def exchange(self, place: Place, request: bytes, most: int) -> Answer:
        """Send a request to a place when it is its turn, and give the answer, of whose body so many bytes are wanted.

        Raises:
            RecordError: the place may not be contacted.
            OSError: it cannot be reached, the connection failed, or what came is no answer.
            UnicodeError: its name cannot be one.
        """
        async with self._turns:
            connection = self._rested(place) or await self._connect(place)
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

    async def _connect(self, place: Place) -> Connection:
        """Connect to the first address that answers; all were judged. TLS still checks the name that the URL has."""
        *others, last = await resolve(place.host, self._reach, self._names)
        for address in others:
            with suppress(OSError):
                return await _connected(place, address)
        return await _connected(place, last)

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
        if len(self._at_rest) > self._most:
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
