"""Views: what clients show of a thread. Only the latest of each kind counts, and no model ever sees one."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote, unquote

from agenttool.codec import json_bytes, parse_object
from agenttool.ports.stores import DocumentStore
from agenttool.records import JsonObject, Part

_SHELF, _HANDLED = "rap.view", "rap.view.handled"
_LISTED = 1000
MOST_VIEWS = 100
MOST_BYTES = 1_000_000
LONGEST_TYPE = 200
"""So many views may one thread have, so large may one be, and so long its type."""

_REMEMBERED = 256
"""So many deliveries to a thread are known again, so that one that was on its way for long does not undo later ones."""

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

    def __init__(self, shelf: DocumentStore) -> None:
        """Take where they are kept."""
        self._shelf = shelf
        self._clients: dict[str, set[asyncio.Queue[View]]] = {}

    async def update(self, view: View, delivery: str | None = None) -> bool:
        """Keep a view in place of the one before, and tell every client on its thread; false if there is no room.

        Args:
            view: what to show from now on.
            delivery: the same for every try to deliver one update; a second one changes nothing.
        """
        body = json_bytes(view.content)
        if len(body) > MOST_BYTES or len(view.view_type) > LONGEST_TYPE or not await self._has_room(view):
            return False
        if await self._put(view, body, delivery):
            self._tell(view)
        return True

    async def _has_room(self, view: View) -> bool:
        if not view.content or await self._shelf.get(_SHELF, _key(view)) is not None:
            return True
        return len(await self._shelf.keys(_SHELF, prefix=_prefix(view.thread_id), limit=MOST_VIEWS)) < MOST_VIEWS

    async def _put(self, view: View, body: bytes, delivery: str | None) -> bool:
        """Keep a view and the delivery that brought it in one step; false if that came before."""
        if delivery is None:
            await self._shelf.put(_SHELF, _key(view), body if view.content else None)
            return True
        while True:
            before = await self._shelf.get(_HANDLED, view.thread_id)
            handled = () if before is None else tuple(before.decode().split())
            if delivery in handled:
                return False
            if not view.content:
                await self._shelf.put(_SHELF, _key(view), None)  # twice does no harm, as long as the other follows
            after = " ".join((*handled, delivery)[-_REMEMBERED:]).encode()
            beside = {(_SHELF, _key(view)): body} if view.content else None
            if await self._shelf.swap(_HANDLED, view.thread_id, before=before, after=after, beside=beside):
                return True

    def _tell(self, view: View) -> None:
        for client in self._clients.get(view.thread_id, ()):
            if client.full():
                client.get_nowait()
            client.put_nowait(view)

    async def close_thread(self, thread_id: str) -> None:
        """Forget the views of a thread, and tell its clients that there is nothing to show any more."""
        while found := await self.of(thread_id):
            for each in found:
                await self._shelf.put(_SHELF, _key(each), None)
                self._tell(View(thread_id=thread_id, view_type=each.view_type, content={}))
        await self._shelf.put(_HANDLED, thread_id, None)

    async def of(self, thread_id: str | None = None, limit: int = _LISTED) -> tuple[View, ...]:
        """Give the current views of one thread, or of all."""
        prefix = "" if thread_id is None else _prefix(thread_id)
        found: list[View] = []
        for key, body in await self._shelf.page(_SHELF, prefix=prefix, limit=limit):
            thread_of, kind = _names(key)
            found.append(View(thread_id=thread_of, view_type=kind, content=parse_object(body)))
        return tuple(found)

    async def names(self, limit: int = _LISTED) -> tuple[tuple[str, str], ...]:
        """Give thread and type of the current views of all threads, and leave what they show where it is."""
        return tuple(map(_names, await self._shelf.keys(_SHELF, limit=limit)))

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


def _key(view: View) -> str:
    return _prefix(view.thread_id) + quote(view.view_type, safe="")


def _names(key: str) -> tuple[str, str]:
    thread_id, _, kind = key.partition("/")
    return unquote(thread_id), unquote(kind)


def _prefix(thread_id: str) -> str:
    return f"{quote(thread_id, safe='')}/"
