"""The lists of resources and prompts of the sources: each is read again for every request, and the last one is known.

A source that did not reply in time delays no further request. Its last list is used until it replies.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from agenttool.adapters.mcp.connection import Unavailable
from agenttool.adapters.mcp.content import without_invalid
from agenttool.adapters.mcp.resources import OPERATIONS
from agenttool.adapters.mcp.session import InvalidResult, fault_of
from agenttool.adapters.mcp.source import McpSource
from agenttool.codec import objects_in
from agenttool.errors import ConfigError, CredentialMissing
from agenttool.mcp.listing import is_valid
from agenttool.ports.resources import OfferKind
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
        entry: the model of an entry.
    """

    operation: str
    reader: str
    key: str
    entry: type[BaseModel]


LISTS = {
    OfferKind.RESOURCES: OfferList("list_resources", "read_resource", "uri", types.Resource),
    OfferKind.TEMPLATES: OfferList("list_resource_templates", "read_resource", "uriTemplate", types.ResourceTemplate),
    OfferKind.PROMPTS: OfferList("list_prompts", "get_prompt", "name", types.Prompt),
}


class ServerError(MCPError):
    """The error with which the server of an entry answered."""


async def answered(reply: Awaitable[Reply]) -> Reply | None:
    """Return the reply of a server; None if it reports an unknown resource.

    Raises:
        ConnectionError: it cannot be used now.
        ServerError: it answers with an error.
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


async def _read_pages(source: McpSource, kind: OfferKind) -> list[JsonObject]:
    """Return all pages of one list; a server without this feature has none."""
    found: list[JsonObject] = []
    cursor: dict[str, str] = {}
    for _ in range(MAX_PAGES):
        try:
            page = await answered(source.read(LISTS[kind].operation, **cursor)) or {}
        except ServerError:  # also from a server without this feature
            break
        following = page.get("nextCursor")
        found += objects_in(page.get(kind.value))
        if not isinstance(following, str):
            break
        cursor = {"cursor": following}
    return found


@dataclass(slots=True, eq=False)
class KnownList:
    """One list of a source, as it was read last.

    Attributes:
        fault: why it may be empty or old; None if the source has replied.
        is_slow: whether the source did not reply in time, so that requests do not wait for it.
    """

    entries: list[JsonObject] = field(default_factory=list)
    fault: str | None = None
    is_slow: bool = False
    reading: asyncio.Task[None] | None = None


StartTask = Callable[[Coroutine[object, object, None]], asyncio.Task[None]]
"""Starts a task that the caller awaits."""


@dataclass(slots=True, eq=False)
class KnownLists:
    """The last lists of all sources.

    Attributes:
        start: starts the tasks, which `close` ends.
        on_late: called when a source replies after requests stopped waiting for it.
    """

    start: StartTask
    on_late: Callable[[str, OfferKind], None]
    _known: dict[tuple[str, OfferKind], KnownList] = field(default_factory=dict)

    async def read(self, source: McpSource, kind: OfferKind) -> KnownList:
        """Return the list of a source, read again if it replies in time."""
        loop, key = asyncio.get_running_loop(), (source.name, kind)
        known, until = self._known.setdefault(key, KnownList()), loop.time() + LIST_S
        while self._known.get(key) is known:
            reading = known.reading = known.reading or self.start(self._read(source, kind, known))
            if known.is_slow:
                break
            await asyncio.wait([reading], timeout=max(until - loop.time(), 0.0))
            if not reading.done():
                known.is_slow = True
                _note(source, kind, known, f"it has not replied after {LIST_S:g} s; requests do not wait for it now")
            if not reading.cancelled():  # otherwise the list has changed meanwhile
                break
        return known

    async def _read(self, source: McpSource, kind: OfferKind, known: KnownList) -> None:
        try:
            async with asyncio.timeout(READ_S):
                offered = await _read_pages(source, kind)
        except (ConnectionError, TimeoutError) as error:
            _note(source, kind, known, str(error) or f"it has not replied after {READ_S:g} s")
        except Exception as error:
            log.exception("the %s of the source %r cannot be listed", kind.value, source.name)
            known.fault = f"{type(error).__name__}: {error}"
        else:
            was_slow, known.fault, known.is_slow = known.is_slow, None, False
            known.entries, known.reading = _valid(source.name, kind, offered), None
            if was_slow:
                self.on_late(source.name, kind)
        finally:
            if known.reading is asyncio.current_task():
                known.reading = None

    def outdate(self, name: str) -> None:
        """Read the lists of a source again for the next request, because they have changed."""
        for kind in OfferKind:
            known = self._known.get((name, kind))
            if known is not None and known.reading is not None:
                known.reading.cancel()
                known.reading = None

    def forget(self, name: str) -> None:
        """Forget the lists of a source that was removed or replaced."""
        self.outdate(name)
        for kind in OfferKind:
            self._known.pop((name, kind), None)

    def close(self) -> None:
        """Stop reading."""
        for name in {name for name, _ in self._known}:
            self.forget(name)


def _note(source: McpSource, kind: OfferKind, known: KnownList, fault: str) -> None:
    """Store why a list was not read, and log it once."""
    if known.fault != fault:
        log.warning("the %s of the source %r are not up to date: %s", kind.value, source.name, fault)
    known.fault = fault


def _valid(name: str, kind: OfferKind, offered: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the valid entries of a list; one that is invalid would invalidate the list of all sources."""
    method = OPERATIONS[LISTS[kind].operation].method
    cleaned = [without_invalid(LISTS[kind].entry, each) for each in offered]
    valid = [each for each in cleaned if is_valid(method, {kind.value: [each]})]
    if len(valid) < len(offered):
        log.warning("%d of the %s of the source %r are invalid", len(offered) - len(valid), kind.value, name)
    return valid
