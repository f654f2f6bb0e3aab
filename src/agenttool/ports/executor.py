"""The port through which the pipeline runs a tool."""

from asyncio import Future
from collections.abc import Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from agenttool.errors import ToolFailure
from agenttool.ports.credentials import Secret
from agenttool.ports.deferred import Thread
from agenttool.records import (
    UNSET,
    AbortReason,
    ErrorClass,
    InvocationId,
    Json,
    JsonObject,
    RetryGuidance,
    ToolError,
    ToolId,
    ToolResult,
    UnsetType,
)


class CancelSignal(Protocol):
    """How a running tool learns that it should stop; safe to read from any thread."""

    @property
    def is_requested(self) -> bool:
        """Whether the call was asked to stop."""
        ...

    @property
    def reason(self) -> AbortReason | None:
        """Why the call was asked to stop; none before."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Block a worker thread until the call is asked to stop; return whether it was before the timeout."""
        ...


class TextMask(Protocol):
    """Masks secrets."""

    def message(self, text: str, /) -> str:
        """Return a message without the secrets; of a long one, only the ends."""
        ...


class Job(Protocol):
    """The input and the services of one run of a tool (AT-PIPE-16)."""

    @property
    def invocation_id(self) -> InvocationId:
        """The call that this run belongs to; usable as an idempotency key."""
        ...

    @property
    def tool_id(self) -> ToolId:
        """The tool to run."""
        ...

    @property
    def call_input(self) -> JsonObject:
        """The final input, as a copy: changing it changes no record."""
        ...

    def converted(self) -> dict[str, object] | None:
        """Return what the tool's `convert` returned for the final input, once: code may change its arguments."""
        ...

    @property
    def thread(self) -> Thread:
        """The conversation that the call is made in."""
        ...

    @property
    def native_call_id(self) -> str | None:
        """The id that the model gave to its call, if any."""
        ...

    @property
    def actor_ref(self) -> str | None:
        """The actor that requested the call, if known; do not pass it to third parties without consent."""
        ...

    @property
    def deadline_ns(self) -> int | None:
        """When the call will be stopped, on the runtime's clock; none if it has no deadline."""
        ...

    @property
    def cancel(self) -> CancelSignal:
        """The signal to stop."""
        ...

    @property
    def sandbox_profile(self) -> str | None:
        """The sandbox profile that the tool declared."""
        ...

    @property
    def scrubber(self) -> TextMask | None:
        """Masks the secrets of this call in text; none if it has none."""
        ...

    @property
    def credentials(self) -> Mapping[str, Secret]:
        """The credentials that are leased to this call while it runs, by name; only those that the tool declares."""
        ...

    def report(
        self,
        message: str | None = None,
        *,
        percent: float | None = None,
        step: str | None = None,
        partial: Json = None,
        facts: Mapping[str, int | str] | None = None,
    ) -> None:
        """Report progress; safe from any thread. A `partial` is a part of the result that is ready now."""
        ...

    def call(self, name: str, arguments: JsonObject) -> Coroutine[object, object, ToolResult]:
        """Call another tool of the same surface; permissions are checked as for any other call."""
        ...

    def call_and_wait(self, name: str, arguments: JsonObject) -> ToolResult:
        """Call another tool from a worker thread, and block until it has ended."""
        ...

    def outside(self, *, is_last: bool = False) -> AbstractAsyncContextManager[None]:
        """Return a context in which the tool only waits for a person, a client or a remote side.

        The call then holds no turn, lock or slot, and delays no other call. It acquires them again at the end, unless
        nothing of the tool runs here after its last wait.
        """
        ...

    @property
    def context(self) -> Mapping[str, Json]:
        """A copy of the context that all calls of a runtime share, as earlier tools changed it."""
        ...

    def change_context(self, changes: JsonObject) -> None:
        """Request a change of the shared context; the scheduler decides whether and when it is applied."""
        ...

    def report_running_thread(self, ended: "Future[None]") -> None:
        """Report that work of this run outlasts the call until `ended`, such as a thread that cannot be stopped."""
        ...

    def add_native_ids(self, source: str, ids: JsonObject) -> None:
        """Record native ids of this run, such as a request id, in the call's external mappings."""
        ...


class Executor(Protocol):
    """Runs a tool. An adapter performs all its I/O here."""

    def start(self, job: Job, /) -> Coroutine[object, object, object]:
        """Return a coroutine that runs the tool once and returns its native output.

        The pipeline awaits it in the task of the caller. It never retries. It obeys cancellation if the tool's profile
        has `supports_cancel`.

        Raises (from the coroutine):
            ToolFailure: execution_failed, dependency_unavailable, rate_limited, sandbox_violation, partial_failure.
        """
        ...


def call_failure(
    error_class: ErrorClass,
    message: str,
    *,
    code: str,
    is_safe: bool = True,
    retry_after: float | None = None,
    native: Json | UnsetType = UNSET,
) -> ToolFailure:
    """Return the failure of a call; `is_safe` states whether a retry is."""
    return ToolFailure(
        ToolError(
            error_class=error_class,
            error_code=code,
            message=message,
            retry=RetryGuidance(safe=is_safe),
            retry_after=UNSET if retry_after is None else retry_after,
            native_error_ref=native,
        )
    )
