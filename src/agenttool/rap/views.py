"""What people see beside the conversation: views that a tool sends, and how far its work is."""

import asyncio

from agenttool.adapters.rap.connections import Terms
from agenttool.adapters.rap.courier import Courier
from agenttool.adapters.rap.credentials import Credential
from agenttool.adapters.rap.wire import ViewUpdate, write
from agenttool.rap.call import Call
from agenttool.rap.keeping import messages
from agenttool.rap.keeping.messages import Kind
from agenttool.rap.keeping.store import Store
from agenttool.rap.outbox import Outbox
from agenttool.rap.tasks import Tasks
from agenttool.records import JsonObject

PROGRESS = "progress"
"""The view of a call's progress is `progress/ID`, so that calls of one thread do not overwrite each other."""


class Views:
    """Views are kept and delivered like results. Progress is not: only the latest matters, and only while it is."""

    def __init__(
        self, store: Store, outbox: Outbox, courier: Courier, tasks: Tasks, credential: Credential | None
    ) -> None:
        """Take how views go out."""
        self._store = store
        self._outbox = outbox
        self._courier = courier
        self._tasks = tasks
        self._credential = credential
        self._latest: dict[int, JsonObject] = {}
        self._posting: dict[int, asyncio.Task[None]] = {}
        outbox.before_view = self._until_posted

    async def send(self, call: Call, view_type: str, content: JsonObject) -> None:
        """Send a view, after whatever the call sent before.

        Raises:
            RecordError: the content is no JSON.
        """
        body = write(ViewUpdate(group_id=call.thread_id, view_type=view_type, content=content))
        self._outbox.send(await self._store.perform(messages.put_next, call.number, Kind.VIEW, body))

    def report(self, call: Call, told: JsonObject) -> None:
        """Send progress, unless the report before is still on its way; then only the latest one follows it."""
        call.has_reported = True
        self._latest[call.number] = told
        if call.number not in self._posting:
            self._posting[call.number] = self._tasks.start(self._post_latest(call))

    def clearing(self, call: Call) -> list[tuple[Kind, bytes]]:
        """Give what clears a call's progress once it has ended: a view with nothing to show is taken away."""
        self._latest.pop(call.number, None)
        return [(Kind.VIEW, _progress(call, {}))] if call.has_reported else []

    async def _post_latest(self, call: Call) -> None:
        try:
            while (told := self._latest.pop(call.number, None)) is not None:
                body, url, shown = _progress(call, told), call.kept.callback_url, self._credential
                headers = None if shown is None else shown.headers("POST", url, body)
                terms = Terms(caller=call.kept.caller, comes_again=True)  # or a later one does
                await self._courier.post(url, body, headers, terms=terms)
        finally:
            del self._posting[call.number]

    async def _until_posted(self, call: int) -> None:
        """Wait for a report that is on its way, or else it might come in after what clears it."""
        posting = self._posting.get(call)
        if posting is not None:
            await asyncio.wait([posting])


def _progress(call: Call, content: JsonObject) -> bytes:
    return write(ViewUpdate(group_id=call.thread_id, view_type=f"{PROGRESS}/{call.id}", content=content))
