"""The one door through which a tool is run."""

from asyncio import Future
from collections.abc import Coroutine, Mapping
from typing import Protocol

from agenttool.ports.deferred import Thread
from agenttool.records import AbortReason, InvocationId, Json, JsonObject, ToolId, ToolResult


class CancelSignal(Protocol):
    """How a running tool learns that it should stop; safe to read from any thread."""

    @property
    def is_requested(self) -> bool:
        """Tell whether someone asked this call to stop."""
        ...

    @property
    def reason(self) -> AbortReason | None:
        """Tell why, once asked."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Block a worker's thread until someone asks, and tell whether someone did."""
        ...


class Job(Protocol):
    """What an executor is handed for one run of a tool (AT-PIPE-16)."""

    @property
    def invocation_id(self) -> InvocationId:
        """The call this run belongs to; the natural idempotency key."""
        ...

    @property
    def tool_id(self) -> ToolId:
        """The tool to run."""
        ...

    @property
    def call_input(self) -> JsonObject:
        """The final input. The executor's own: changing it changes no record."""
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
        """Who asks for the call, if that is known; not to be handed to anybody without consent."""
        ...

    @property
    def deadline_ns(self) -> int | None:
        """When the call will be stopped, on the runtime's clock; none if it may take for ever."""
        ...

    @property
    def cancel(self) -> CancelSignal:
        """The signal to stop."""
        ...

    @property
    def sandbox_profile(self) -> str | None:
        """The confinement that the tool declared."""
        ...

    @property
    def credentials(self) -> Mapping[str, str]:
        """What the vault leased for this one job, by credential ref."""
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
        """Tell how far the work is; safe from any thread. A `partial` is a part of the result, ready now."""
        ...

    def call(self, name: str, arguments: JsonObject) -> Coroutine[object, object, ToolResult]:
        """Call another tool of the same surface from within this run; it is judged like any other call."""
        ...

    def call_and_wait(self, name: str, arguments: JsonObject) -> ToolResult:
        """Do the same from a worker's thread."""
        ...

    @property
    def context(self) -> Mapping[str, Json]:
        """What tools before this one left in the context that all calls of a runtime share."""
        ...

    def change_context(self, changes: JsonObject) -> None:
        """Ask for a change of that context; whether it is made, and when, is for the scheduler to say."""
        ...

    def goes_on(self, ended: "Future[None]") -> None:
        """Say that work of this run goes on after its end, as a thread does that nobody can stop, until `ended`."""
        ...

    def add_native_ids(self, source: str, ids: JsonObject) -> None:
        """Keep native ids of this run, such as a request id, in the call's external mappings."""
        ...


class Executor(Protocol):
    """Runs a tool. All input and output of an adapter is here."""

    def start(self, job: Job, /) -> Coroutine[object, object, object]:
        """Give the work of one run, not yet begun, whose value is the tool's native output.

        It is driven inside the task of whoever called the tool. It never retries, and it obeys cancellation if the
        tool's profile says that it does.

        Raises (from the coroutine):
            ToolFailure: execution_failed, dependency_unavailable, rate_limited, sandbox_violation, partial_failure.
        """
        ...
