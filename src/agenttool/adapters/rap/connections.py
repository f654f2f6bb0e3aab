"""Connections to other hosts: each lent to one request at a time, and kept for the next one to the same place."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache

import httpcore

from agenttool.adapters.rap.forgery import GuardedBackend, Reach
from agenttool.adapters.rap.names import Names

_Place = tuple[bytes, bytes, int | None]


class Connections:
    """A few connections at rest, and no more at work than allowed.

    The library has a pool, too; it looks through all of its connections, several times over, for every request.
    """

    def __init__(self, reach: Reach, names: Names, *, most: int, rest_s: float) -> None:
        """Take where they may lead, who knows names, how many there may be, and how long one may rest."""
        self._backend = GuardedBackend(reach, names)
        self._turns = asyncio.Semaphore(most)
        self._most_at_rest = max(1, most // 5)
        self._rest_s = rest_s
        self._at_rest: list[tuple[_Place, httpcore.AsyncHTTPConnection]] = []

    @asynccontextmanager
    async def lent(self, url: httpcore.URL) -> AsyncGenerator[httpcore.AsyncHTTPConnection]:
        """Lend a connection to where a URL leads; it is made when it is first used."""
        place = (url.scheme, url.host, url.port)
        async with self._turns:
            connection = await self._rested(place) or httpcore.AsyncHTTPConnection(
                url.origin, ssl_context=tls(), keepalive_expiry=self._rest_s, network_backend=self._backend
            )
            try:
                yield connection
            finally:
                await self._take_back(place, connection)

    async def close(self) -> None:
        """Close those at rest."""
        while self._at_rest:
            await self._at_rest.pop()[1].aclose()

    async def _rested(self, place: _Place) -> httpcore.AsyncHTTPConnection | None:
        """Give the one that rested last and still holds; those that do not are closed on the way."""
        for position in reversed(range(len(self._at_rest))):
            if self._at_rest[position][0] == place:
                _, connection = self._at_rest.pop(position)
                if connection.is_available() and not connection.has_expired():
                    return connection
                await connection.aclose()
                return None
        return None

    async def _take_back(self, place: _Place, connection: httpcore.AsyncHTTPConnection) -> None:
        if not connection.is_idle():
            await connection.aclose()
            return
        self._at_rest.append((place, connection))
        if len(self._at_rest) > self._most_at_rest:
            await self._at_rest.pop(0)[1].aclose()


@cache
def tls() -> ssl.SSLContext:
    """Make the context once: reading the certificates takes a tenth of a second."""
    return httpcore.default_ssl_context()
