"""The services of the runtime that a tool function can use, and the progress that it can yield."""

import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass

from agenttool.ports.credentials import Secret
from agenttool.ports.executor import Job
from agenttool.records import AbortReason, InvocationId, Json, JsonObject, ToolResult

log = logging.getLogger("agenttool.tool")


@dataclass(frozen=True, slots=True)
class Progress:
    """A progress report that a generator yields; any other yielded value is a part of the result.

    One part is the result itself. Several texts are joined, and several other parts are a list.
    """

    message: str | None = None
    percent: float | None = None
    step: str | None = None


def joined_parts(parts: Sequence[object]) -> object:
    """Return the parts that a generator yielded as one result: one part as it is, texts joined, others as a list."""
    if len(parts) <= 1:
        return parts[0] if parts else None
    texts = [each for each in parts if isinstance(each, str)]
    return "".join(texts) if len(texts) == len(parts) else list(parts)


class Context:
    """The running call. The runtime fills a parameter of this class, and no model sees it."""

    __slots__ = ("_job",)

    def __init__(self, job: Job) -> None:
        self._job = job

    def __repr__(self) -> str:
        """Return a text that is the same in every process, because a tool that runs again must make the same calls."""
        return f"Context({self.invocation_id!r})"

    @property
    def invocation_id(self) -> InvocationId:
        """The id of the call; pass it to other systems as the idempotency key."""
        return self._job.invocation_id

    @property
    def is_canceled(self) -> bool:
        """Whether the call was asked to stop; a function in a thread should check this regularly."""
        return self._job.cancel.is_requested

    @property
    def cancel_reason(self) -> AbortReason | None:
        """Why the call was asked to stop; none before."""
        return self._job.cancel.reason

    def wait_for_cancel(self, timeout: float | None = None) -> bool:
        """Block a plain function until the call is asked to stop; return whether it was before the timeout."""
        return self._job.cancel.wait(timeout)

    def call(self, name: str, arguments: JsonObject) -> Coroutine[object, object, ToolResult]:
        """Call another tool of the same surface, with at most the permissions of this call."""
        return self._job.call(name, arguments)

    def call_and_wait(self, name: str, arguments: JsonObject) -> ToolResult:
        """Call another tool from a plain function, which runs in a thread of its own."""
        return self._job.call_and_wait(name, arguments)

    @property
    def shared(self) -> Mapping[str, Json]:
        """A copy of the context that all calls of a runtime share, as earlier tools changed it."""
        return self._job.context

    def change_shared(self, changes: JsonObject) -> None:
        """Request a change of the shared context; the tool must declare `changes_context=True`."""
        self._job.change_context(changes)

    @property
    def credentials(self) -> Mapping[str, Secret]:
        """The credentials that are leased to this call while it runs: `ctx.credentials["github"].value`."""
        return self._job.credentials

    def progress(self, message: str | None = None, *, percent: float | None = None, step: str | None = None) -> None:
        """Report progress; safe from any thread."""
        self._job.report(message, percent=percent, step=step)

    def log(self, message: str, *, level: int = logging.INFO) -> None:
        """Record a message with the call, without its secrets, and log it as `agenttool.tool`; safe from any thread."""
        mask = self._job.scrubber
        log.log(level, "%s: %s", self.invocation_id, message if mask is None else mask.message(message))
        self._job.report(message, step="log")

    def partial(self, value: Json) -> None:
        """Report a part of the result before the rest is ready."""
        self._job.report(partial=value)
