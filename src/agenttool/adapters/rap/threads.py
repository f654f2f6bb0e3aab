"""Which threads there are: callbacks count only for those that a call was made in and that are not closed."""

from agenttool.codec import read_own, write_own
from agenttool.ports.deferred import Thread
from agenttool.ports.stores import DocumentStore
from agenttool.records import Part

_SHELF = "rap.thread"
_MOST = 10_000
"""So many open threads are remembered without looking; it only saves time."""


class KnownThread(Part, frozen=True, kw_only=True):
    """A thread that calls were made in."""

    thread: Thread
    is_closed: bool = False


class Threads:
    """The threads of a store, across processes."""

    def __init__(self, shelf: DocumentStore) -> None:
        """Take where they are kept."""
        self._shelf = shelf
        self._open: dict[str, Thread] = {}

    async def open(self, thread: Thread) -> None:
        """Remember a thread that a call is made in; a closed one is open again."""
        if self._open.get(thread.thread_id) == thread:
            return
        await self._shelf.put(_SHELF, thread.thread_id, write_own(KnownThread(thread=thread)))
        if len(self._open) > _MOST:
            self._open.clear()
        self._open[thread.thread_id] = thread

    async def find(self, thread_id: str) -> Thread | None:
        """Give an open thread; none if it is closed, or nobody knows it."""
        body = await self._shelf.get(_SHELF, thread_id)
        known = None if body is None else read_own(body, KnownThread)
        return None if known is None or known.is_closed else known.thread

    async def close(self, thread_id: str) -> None:
        """Remember that a thread is closed."""
        self._open.pop(thread_id, None)
        body = await self._shelf.get(_SHELF, thread_id)
        if body is not None:
            known = read_own(body, KnownThread)
            await self._shelf.put(_SHELF, thread_id, write_own(KnownThread(thread=known.thread, is_closed=True)))
