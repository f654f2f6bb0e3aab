"""The lists of resources and prompts of the sources: each is read again for every request, and the last one is known.

A source that did not reply in time delays no further request. Its last list is used until it replies.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from mcp.shared.exceptions import MCPError

from agenttool.adapters.mcp.connection import Unavailable
from agenttool.adapters.mcp.resources import OPERATIONS
from agenttool.adapters.mcp.session import InvalidResult, fault_of
from agenttool.adapters.mcp.source import McpSource
from agenttool.errors import CallerError, ConfigError, CredentialMissing
from agenttool.mcp.listing import is_valid
from agenttool.ports.resources import OfferChanged, OfferKind, ResourceProvider, Unsubscribe
from agenttool.records import JsonObject

log = logging.getLogger("agenttool.mcp")

LIST_S = 5.0
"""How long a request waits for the list of a source that has always replied in time."""

READ_S = 60.0
"""After how long a list is requested again from a source that does not reply."""


MAX_PAGES = 100
"""How many pages of a server's list are read."""

OLD_NOT_FOUND = -32002
"""The code for an unknown resource before revision 2026-07-28."""

Reply = TypeVar("Reply")


class OfferList(NamedTuple):
    """One list of a server.

    Attributes:
        operation: the operation that reads the list.
        reader: the tool that reads an entry.
        key: the member by which an entry is read.
    """

    operation: str
    reader: str
    key: str


LISTS = {
    OfferKind.RESOURCES: OfferList("list_resources", "read_resource", "uri"),
    OfferKind.TEMPLATES: OfferList("list_resource_templates", "read_resource", "uriTemplate"),
    OfferKind.PROMPTS: OfferList("list_prompts", "get_prompt", "name"),
}


class ServerError(MCPError):
    """The error with which the server of an entry answered."""


@dataclass(frozen=True, slots=True)
class ServerOffers:
    """The resources and prompts of an MCP server that is a source; its tools read them."""

    _source: McpSource

    @property
    def name(self) -> str:
        """The name of the source."""
        return self._source.name

    def reading_tool(self, kind: OfferKind) -> str | None:
        """Return the qualified name of the tool that reads an entry; None if the server does not have this feature."""
        return self._tool(LISTS[kind].reader)

    @property
    def completing_tool(self) -> str | None:
        """The qualified name of the tool that completes arguments; None if the server does not have this feature."""
        return self._tool("complete")

    def _tool(self, operation: str) -> str | None:
        return f"{self.name}.{operation}" if self._source.has_reading_tool(operation) else None

    async def list_offers(self, kind: OfferKind) -> list[JsonObject]:
        """Return all pages of one list; a server without this feature has none."""
        found: list[JsonObject] = []
        operation = LISTS[kind].operation
        cursor: dict[str, str] = {}
        for _ in range(MAX_PAGES):
            try:
                page = await self._ask(self._source.read(operation, **cursor)) or {}
            except MCPError:  # also from a server without this feature
                break
            entries = page.get(kind.value)
            found += [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else ()
            following = page.get("nextCursor")
            if not isinstance(following, str):
                break
            cursor = {"cursor": following}
        return found

    def watch(self, changed: OfferChanged) -> None:
        """Report when the lists of the server change."""
        self._source.watch_offers(changed)

    async def subscribe(self, uri: str, changed: Callable[[], None], actor: str | None) -> Unsubscribe | None:
        """Report changes of a resource to this actor; None if the server does not notice them."""
        return await self._ask(self._source.subscribe(uri, changed, actor))

    async def _ask(self, reply: Awaitable[Reply | None]) -> Reply | None:
        """Return the reply of the server; None if it reports an unknown resource.

        Raises:
            ConnectionError: it cannot be used now.
            MCPError: it answers with an error.
        """
        try:
            return await reply
        except MCPError as error:
            if fault_of(error) is not None:
                raise ConnectionError(error.message) from error
            if error.code == OLD_NOT_FOUND:
                return None
            raise ServerError(error.code, error.message, error.data) from error
        except (Unavailable, InvalidResult, CredentialMissing, ConfigError) as error:
            raise ConnectionError(str(error)) from error


OfferProvider = ResourceProvider | ServerOffers
"""A source with resources or prompts."""


@dataclass(slots=True, eq=False)
class KnownList:
    """One list of a source, as it was read last.

    Attributes:
        fault: why it may be empty or old; None if the source has replied.
        is_slow: whether the source did not reply in time, so that requests do not wait for it.
    """

    entries: list[JsonObject] = field(default_factory=list[JsonObject])
    fault: str | None = None
    is_slow: bool = False
    reading: asyncio.Task[None] | None = None


StartTask = Callable[[Coroutine[object, object, None]], asyncio.Task[None]]
"""Starts a task that the caller awaits."""


class KnownLists:
    """The last lists of all sources."""

    def __init__(self, start: StartTask, on_late: Callable[[str, OfferKind], None]) -> None:
        """Take the function that starts the tasks, which `close` ends.

        `on_late` is called after a source has replied for which requests did not wait.
        """
        self._start = start
        self._on_late = on_late
        self._known: dict[tuple[str, OfferKind], KnownList] = {}

    async def read(self, source: OfferProvider, kind: OfferKind) -> KnownList:
        """Return the list of a source, read again if it replies in time."""
        loop, key = asyncio.get_running_loop(), (source.name, kind)
        known, until = self._known.setdefault(key, KnownList()), loop.time() + LIST_S
        while self._known.get(key) is known:
            reading = known.reading = known.reading or self._start(self._read(source, kind, known))
            if known.is_slow:
                break
            await asyncio.wait([reading], timeout=max(until - loop.time(), 0.0))
            if not reading.done():
                known.is_slow = True
                _note(source, kind, known, f"it has not replied after {LIST_S:g} s; requests do not wait for it now")
            if not reading.cancelled():  # otherwise the list has changed meanwhile
                break
        return known

    async def _read(self, source: OfferProvider, kind: OfferKind, known: KnownList) -> None:
        try:
            async with asyncio.timeout(READ_S):
                offered = await source.list_offers(kind)
        except (CallerError, ConnectionError, TimeoutError) as error:
            _note(source, kind, known, str(error) or f"it has not replied after {READ_S:g} s")
        except Exception as error:
            log.exception("the %s of the source %r cannot be listed", kind.value, source.name)
            known.fault = f"{type(error).__name__}: {error}"
        else:
            was_slow, known.fault, known.is_slow = known.is_slow, None, False
            known.entries, known.reading = _valid(source.name, kind, offered), None
            if was_slow:
                self._on_late(source.name, kind)
        finally:
            if known.reading is asyncio.current_task():
                known.reading = None

    def outdate(self, name: str) -> None:
        """Read the lists of a source again for the next request, because they have changed."""
        for kind in OfferKind:
            _stop(self._known.get((name, kind)))

    def forget(self, name: str) -> None:
        """Forget the lists of a source that was removed or replaced."""
        for kind in OfferKind:
            _stop(self._known.pop((name, kind), None))

    def close(self) -> None:
        """Stop reading."""
        for name in {name for name, _ in self._known}:
            self.forget(name)


def _stop(known: KnownList | None) -> None:
    if known is not None and known.reading is not None:
        known.reading.cancel()
        known.reading = None


def _note(source: OfferProvider, kind: OfferKind, known: KnownList, fault: str) -> None:
    """Store why a list was not read, and log it once."""
    if known.fault != fault:
        log.warning("the %s of the source %r are not up to date: %s", kind.value, source.name, fault)
    known.fault = fault


def _valid(name: str, kind: OfferKind, offered: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the valid entries of a list; one that is invalid would invalidate the list of all sources."""
    method = OPERATIONS[LISTS[kind].operation].method
    valid = [each for each in offered if is_valid(method, {kind.value: [each]})]
    if len(valid) < len(offered):
        log.warning("%d of the %s of the source %r are invalid", len(offered) - len(valid), kind.value, name)
    return valid
