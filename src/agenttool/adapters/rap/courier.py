"""Requests to the other side: guarded, bounded in time and size, and never led elsewhere by a redirect."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from agenttool.adapters.rap.connections import PLAIN, Connections, Place, Terms
from agenttool.adapters.rap.exchange import spell
from agenttool.adapters.rap.forgery import Reach, check_url, is_address, resolve
from agenttool.adapters.rap.names import Names
from agenttool.adapters.rap.turns import Shares
from agenttool.errors import RecordError

ACCEPTED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of a request: a status, or why there is none.

    Attributes:
        status: of the answer; none if nobody answered, or nobody was asked.
        body: of the answer, as far as it was read.
        fault: why there is no status, in words that name no address.
        is_refused: whether the request may not be made at all, now or later.
    """

    status: int | None = None
    body: bytes = b""
    fault: str | None = None
    is_refused: bool = False

    @property
    def is_accepted(self) -> bool:
        """Tell whether the other side took it in: exactly 200 says so."""
        return self.status == ACCEPTED

    @property
    def is_worth_retrying(self) -> bool:
        """Tell whether the same request may fare better later: nobody answered, or the fault was theirs."""
        return not self.is_refused and (self.status is None or self.status >= 500)  # noqa: PLR2004 -- HTTP's own line


class Courier:
    """Carries messages, and keeps connections open between them. A failure is a reply, not an exception."""

    def __init__(self, reach: Reach, *, timeout_s: float = 15.0, shares: Shares | None = None) -> None:
        """Take where it may go, and how many requests may be made at a time, or only how long one may take."""
        self._reach = reach
        self._names = Names()
        self._connections = Connections(reach, self._names, shares or _undivided(timeout_s), rest_s=15.0)

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        max_bytes: int = 4096,
        terms: Terms = PLAIN,
    ) -> Reply:
        """Post one message, byte for byte to that URL, as JSON unless the headers say otherwise."""
        told = {"Content-Type": "application/json", **(headers or {})}
        return await self._carry(url, _Asked("POST", told, body, max_bytes), terms)

    async def get(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        max_bytes: int = 4_000_000,
        terms: Terms = PLAIN,
    ) -> Reply:
        """Ask for a JSON document of at most so many bytes."""
        told = {"Accept": "application/json", **(headers or {})}
        return await self._carry(url, _Asked("GET", told, None, max_bytes), terms)

    async def judge(self, url: str, caller: str = "") -> None:
        """Refuse a URL that may not be contacted, without contacting it; a name that nobody knows now may be one later.

        Raises:
            RecordError: it may not be contacted.
        """
        check_url(url, self._reach)
        host = urlsplit(url).hostname or ""
        if is_address(host):
            return
        with suppress(OSError, UnicodeError):
            await resolve(host, self._reach, self._names, caller)

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    async def _carry(self, url: str, asked: "_Asked", terms: Terms) -> Reply:
        try:
            check_url(url, self._reach)
            return await self._exchange(url, asked, terms)
        except RecordError as error:
            return Reply(fault=str(error), is_refused=True)
        except TimeoutError as error:
            return Reply(fault=str(error) or "its name was not found in time")
        except (OSError, UnicodeError) as error:
            return Reply(fault=f"the connection failed: {type(error).__name__}")

    async def _exchange(self, url: str, asked: "_Asked", terms: Terms) -> Reply:
        parts = urlsplit(url)
        is_tls = parts.scheme == "https"
        place = Place(parts.hostname or "", parts.port or (443 if is_tls else 80), is_tls)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        request = spell(asked.method, parts.netloc, target, asked.headers, asked.body)
        status, read = await self._connections.exchange(place, request, asked.max_bytes, terms)
        if asked.method == "GET" and len(read) > asked.max_bytes:
            return Reply(fault=f"the answer has more than {asked.max_bytes} bytes", is_refused=True)
        return Reply(status=status, body=read[: asked.max_bytes])


class _Asked(NamedTuple):
    method: str
    headers: Mapping[str, str]
    body: bytes | None
    max_bytes: int


def _undivided(timeout_s: float) -> Shares:
    """Give turns to whoever asks first, and let nobody wait longer for one than it would last."""
    most = 100
    return Shares(most=most, each=most, alike=most, within_s=timeout_s, wait_s=timeout_s)
