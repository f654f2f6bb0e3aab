"""Work that a server has accepted and that is polled for its result.

On a durable store the place of the work is stored with the call. If this process ends, the next one follows the work.
"""

from contextlib import suppress

from agenttool.errors import StoreError, ToolFailure
from agenttool.ports.deferred import Prompt, ReplyOutcome, Thread
from agenttool.ports.stores import DocumentStore
from agenttool.records import ErrorClass, InvocationId, ToolError


class PolledWork:
    """The stored places of the work of open calls; the `DeferredTool` of tools that poll.

    A process that recovers a call runs its executor again, which follows the work. Without a stored place the request
    may have been lost or handled, so it is not sent again.
    """

    def __init__(self, documents: DocumentStore, kind: str) -> None:
        """Take the store, and the kind of the documents, each under the id of its call."""
        self._documents = documents
        self._kind = kind

    async def get(self, invocation_id: InvocationId) -> str | None:
        """Return the place of the work of a call, such as the id of a task or a URL."""
        body = await self._documents.get(self._kind, invocation_id)
        return None if body is None else body.decode()

    async def store(self, invocation_id: InvocationId, place: str | None) -> None:
        """Store a place; None deletes it. If that fails, the work does not outlive this process."""
        with suppress(StoreError):
            await self._documents.put(self._kind, invocation_id, None if place is None else place.encode())

    async def may_resend(self, invocation_id: InvocationId) -> bool:
        """Return whether a later process can follow the work of a call."""
        return await self.get(invocation_id) is not None

    def until_ns(self, invocation_id: InvocationId, started_ns: int) -> int | None:
        """Return None: the timeout of the tool limits the call."""
        return None

    def why_over(self, invocation_id: InvocationId, now_ns: int) -> str | None:
        """Return None, as `until_ns`."""
        return None

    def read(self, body: bytes) -> object:
        """Refuse: results are polled for, and no one else delivers them.

        Raises:
            ToolFailure: always.
        """
        message = "a result was delivered for a call that polls for it; it is not used"
        raise ToolFailure(ToolError(error_class=ErrorClass.RESULT_MAPPING_FAILED, message=message))

    def withdraw(self, invocation_id: InvocationId, thread: Thread) -> None:
        """Do nothing: the executor cancels the work, if it can be canceled."""

    async def reply(self, prompt: Prompt, selected: int) -> ReplyOutcome:
        """Refuse: questions of such work are approvals."""
        return ReplyOutcome.REFUSED
