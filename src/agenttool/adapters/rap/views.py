"""Views: what clients show of a thread. Only the latest of each kind counts, and no model ever sees one."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote, unquote

from agenttool.codec import json_bytes, parse_object
from agenttool.ports.shelf import Shelf
from agenttool.records import JsonObject, Part

_SHELF = "rap.view"
_MOST_VIEWS = 1000
_BACKLOG = 1000
"""So many updates wait for a client that does not read; then it misses the oldest, which later ones replace anyway."""


class View(Part, frozen=True, kw_only=True):
    """One view of one thread; its content is a stranger's, to be sanitized before anybody renders it.

    An empty content says that there is nothing to show any more.
    """

    thread_id: str
    view_type: str
    content: JsonObject


class Views:
    """The latest content for each thread and type of view."""

    def __init__(self, shelf: Shelf) -> None:
        """Take where they are kept."""
        self._shelf = shelf
        self._clients: dict[str, set[asyncio.Queue[View]]] = {}

    async def update(self, view: View) -> None:
        """Keep a view in place of the one before, and tell every client on its thread."""
        key = f"{quote(view.thread_id, safe='')}/{quote(view.view_type, safe='')}"
        await self._shelf.put(_SHELF, key, json_bytes(view.content) if view.content else None)
        for client in self._clients.get(view.thread_id, ()):
            if client.full():
                client.get_nowait()
            client.put_nowait(view)

    async def of(self, thread_id: str | None = None, limit: int = _MOST_VIEWS) -> tuple[View, ...]:
        """Give the current views of one thread, or of all."""
        prefix = "" if thread_id is None else f"{quote(thread_id, safe='')}/"
        found: list[View] = []
        for key, body in await self._shelf.page(_SHELF, prefix=prefix, limit=limit):
            thread, _, kind = key.partition("/")
            found.append(View(thread_id=unquote(thread), view_type=unquote(kind), content=parse_object(body)))
        return tuple(found)

    async def follow(self, thread_id: str) -> AsyncIterator[View]:
        """Give the current views of a thread, and then each update, for ever."""
        client: asyncio.Queue[View] = asyncio.Queue(_BACKLOG)
        clients = self._clients.setdefault(thread_id, set())
        clients.add(client)
        try:
            for view in await self.of(thread_id):
                yield view
            while True:
                yield await client.get()
        finally:
            clients.discard(client)
            if not clients:
                self._clients.pop(thread_id, None)
