"""What a tool function may ask for while it runs, and what it may yield."""

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass

from agenttool.ports.executor import Job
from agenttool.records import AbortReason, InvocationId, Json, JsonObject, ToolResult


@dataclass(frozen=True, slots=True)
class Progress:
    """Yield this from a generator to tell how far the work is; anything else yielded is a part of the result."""

    message: str | None = None
    percent: float | None = None
    step: str | None = None


class Context:
    """The call from the inside. A parameter of this class is filled by the runtime and shown to no model."""

    __slots__ = ("_job",)

    def __init__(self, job: Job) -> None:
        """Take the job this run belongs to."""
        self._job = job

    @property
    def invocation_id(self) -> InvocationId:
        """The call; pass it to other systems as idempotency key."""
        return self._job.invocation_id

    @property
    def is_canceled(self) -> bool:
        """Tell whether someone asked to stop; a function in a thread should look now and then."""
        return self._job.cancel.is_requested

    @property
    def cancel_reason(self) -> AbortReason | None:
        """Tell why it should stop."""
        return self._job.cancel.reason

    def wait_for_cancel(self, timeout: float | None = None) -> bool:
        """Block the thread of a plain function until someone asks to stop, and tell whether someone did."""
        return self._job.cancel.wait(timeout)

    def call(self, name: str, arguments: JsonObject) -> Coroutine[object, object, ToolResult]:
        """Call another tool of the same surface: `await context.call(...)`. It gets no more than this call may have."""
        return self._job.call(name, arguments)

    def call_and_wait(self, name: str, arguments: JsonObject) -> ToolResult:
        """Call another tool from a plain function, which runs in a thread of its own."""
        return self._job.call_and_wait(name, arguments)

    @property
    def shared(self) -> Mapping[str, Json]:
        """What tools before this one left in the context that all calls of a runtime share."""
        return self._job.context

    def change_shared(self, changes: JsonObject) -> None:
        """Ask for a change of the shared context; a tool that does so declares `changes_context=True`."""
        self._job.change_context(changes)

    @property
    def credentials(self) -> Mapping[str, str]:
        """Give what was leased for this one call."""
        return self._job.credentials

    def report(self, message: str | None = None, *, percent: float | None = None, step: str | None = None) -> None:
        """Tell how far the work is; safe from any thread."""
        self._job.report(message, percent=percent, step=step)

    def partial(self, value: Json) -> None:
        """Hand out a part of the result before the rest is done."""
        self._job.report(partial=value)
