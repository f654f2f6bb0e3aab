"""What a tool function may ask for while it runs, and what it may yield."""

from collections.abc import Mapping
from dataclasses import dataclass

from agenttool.ports.executor import Job
from agenttool.records import AbortReason, InvocationId, Json


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
