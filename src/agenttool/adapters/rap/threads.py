"""The threads that calls were made in, and the views that clients show of them."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote, unquote

from agenttool.codec import json_bytes, parse_object, read_own, write_own
from agenttool.ports.deferred import Thread
from agenttool.ports.stores import DocumentStore
from agenttool.records import JsonObject, Part

_THREADS, _VIEWS, _DELIVERIES = "rap.thread", "rap.view", "rap.view.delivery"
_MAX_CACHED = 10_000
"""How many open threads are cached in memory."""

_MAX_LISTED = 1000
MAX_VIEWS = 100
MAX_VIEW_BYTES = 1_000_000
MAX_VIEW_TYPE = 200
"""The limits of one thread's views: their number, the size of one, and the length of its type."""

_MAX_DELIVERIES = 256
"""How many deliveries to a thread are recorded, so that a late repetition does not undo a newer view."""

_MAX_QUEUED = 1000
"""How many updates wait for a client that does not read; then the oldest is dropped, because later ones replace it."""


class ThreadRegistry:
    """The threads of a store, across processes. Callbacks count only for threads that are open."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        self._open: dict[str, Thread] = {}

    async def open(self, thread: Thread) -> None:
        """Record a thread as open, also one that was closed."""
        if self._open.get(thread.thread_id) == thread:
            return
        await self._documents.put(_THREADS, thread.thread_id, write_own(thread))
        if len(self._open) > _MAX_CACHED:
            self._open.clear()
        self._open[thread.thread_id] = thread

    async def find(self, thread_id: str) -> Thread | None:
        """Return an open thread; None if it is closed or unknown."""
        body = await self._documents.get(_THREADS, thread_id)
        return None if body is None else read_own(body, Thread)

    async def close(self, thread_id: str) -> None:
        """Delete a thread, so that it counts as closed."""
        self._open.pop(thread_id, None)
        await self._documents.put(_THREADS, thread_id, None)


class View(Part, frozen=True, kw_only=True):
    """One view of one thread. Its content is untrusted: clients must sanitize it. Empty content clears the view."""

    thread_id: str
    view_type: str
    content: JsonObject


class ViewStore:
    """The latest content of each view of each thread; models never see it."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        self._clients: dict[str, set[asyncio.Queue[View]]] = {}

    async def update(self, view: View, delivery: str | None = None) -> bool:
        """Store a view in place of the previous one and notify the clients of its thread; False if a limit is hit.

        Args:
            view: the new view.
            delivery: identifies the update; a repeated delivery changes nothing.
        """
        body = json_bytes(view.content)
        if len(body) > MAX_VIEW_BYTES or len(view.view_type) > MAX_VIEW_TYPE or not await self._has_room(view):
            return False
        if await self._put(view, body, delivery):
            self._notify(view)
        return True

    async def _put(self, view: View, body: bytes, delivery: str | None) -> bool:
        """Store a view and its delivery in one step; return False if the delivery was recorded before."""
        if delivery is None:
            await self._documents.put(_VIEWS, _view_key(view), body if view.content else None)
            return True
        while True:
            before = await self._documents.get(_DELIVERIES, view.thread_id)
            recorded = () if before is None else tuple(before.decode().split())
            if delivery in recorded:
                return False
            if not view.content:
                await self._documents.put(_VIEWS, _view_key(view), None)  # safe to repeat until the swap succeeds
            after = " ".join((*recorded, delivery)[-_MAX_DELIVERIES:]).encode()
            beside = {(_VIEWS, _view_key(view)): body} if view.content else None
            if await self._documents.swap(_DELIVERIES, view.thread_id, before=before, after=after, beside=beside):
                return True

    async def _has_room(self, view: View) -> bool:
        if not view.content or await self._documents.get(_VIEWS, _view_key(view)) is not None:
            return True
        return len(await self._documents.keys(_VIEWS, prefix=thread_key(view.thread_id), limit=MAX_VIEWS)) < MAX_VIEWS

    def _notify(self, view: View) -> None:
        for client in self._clients.get(view.thread_id, ()):
            if client.full():
                client.get_nowait()
            client.put_nowait(view)

    async def close_thread(self, thread_id: str) -> None:
        """Delete the views of a thread, and send its clients empty ones."""
        while found := await self.of(thread_id):
            for each in found:
                await self._documents.put(_VIEWS, _view_key(each), None)
                self._notify(View(thread_id=thread_id, view_type=each.view_type, content={}))
        await self._documents.put(_DELIVERIES, thread_id, None)

    async def of(self, thread_id: str | None = None, limit: int = _MAX_LISTED) -> tuple[View, ...]:
        """Return the current views of one thread, or of all."""
        prefix = "" if thread_id is None else thread_key(thread_id)
        found: list[View] = []
        for key, body in await self._documents.page(_VIEWS, prefix=prefix, limit=limit):
            thread_of, kind = _parse_key(key)
            found.append(View(thread_id=thread_of, view_type=kind, content=parse_object(body)))
        return tuple(found)

    async def names(self, limit: int = _MAX_LISTED) -> tuple[tuple[str, str], ...]:
        """Return the thread and type of each current view, without its content."""
        return tuple(map(_parse_key, await self._documents.keys(_VIEWS, limit=limit)))

    async def follow(self, thread_id: str) -> AsyncIterator[View]:
        """Yield the current views of a thread, and then each update, without end."""
        client: asyncio.Queue[View] = asyncio.Queue(_MAX_QUEUED)
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


def thread_key(thread_id: str, name: str = "") -> str:
    """Return the key of a document of a thread; without a name, the prefix of all these keys."""
    return f"{quote(thread_id, safe='')}/{quote(name, safe='')}"


def _view_key(view: View) -> str:
    return thread_key(view.thread_id, view.view_type)


def _parse_key(key: str) -> tuple[str, str]:
    thread_id, _, kind = key.partition("/")
    return unquote(thread_id), unquote(kind)
