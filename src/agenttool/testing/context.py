"""A context for unit tests of tool functions: it records what a function reports, and returns what a test prepares."""

import logging
import threading
from collections.abc import Callable, Mapping

from agenttool.adapters.python.context import Context, Progress
from agenttool.call.services import LeasedCredentials
from agenttool.codec import json_bytes
from agenttool.codec.moments import timestamp
from agenttool.errors import ConfigError, ToolFailure, words_of
from agenttool.ports.credentials import Secret
from agenttool.records import (
    UNSET,
    AbortReason,
    ErrorClass,
    InvocationId,
    Json,
    JsonObject,
    Phase,
    ResultId,
    ToolError,
    ToolResult,
    plain_result,
)
from agenttool.results.failure import result_of_failure
from agenttool.testing.fakes import EPOCH_NS

Prepared = Json | Exception | ToolResult
"""The outcome of a nested call: a value, an exception that it fails with, or a whole result."""


class FakeContext(Context):
    """A `Context` without a runtime: pass it to a tool function, then look at its lists.

    Attributes:
        reports: what the function passed to `progress`.
        messages: what it passed to `log`.
        partials: what it passed to `partial`.
        calls: the nested calls, each a name and arguments.
        changes: what it passed to `change_shared`.
    """

    def __init__(
        self,
        *,
        credentials: Mapping[str, str] | None = None,
        results: Mapping[str, Prepared | Callable[[JsonObject], Prepared]] | None = None,
        shared: JsonObject | None = None,
        invocation_id: str = "inv_test",
    ) -> None:
        """Prepare a call.

        Args:
            credentials: the secrets of `ctx.credentials`, by name.
            results: the outcomes of nested calls by the name of the tool, or functions that get the arguments.
            shared: the content of `ctx.shared`.
            invocation_id: the id of the call.
        """
        self.reports: list[Progress] = []
        self.messages: list[str] = []
        self.partials: list[Json] = []
        self.calls: list[tuple[str, JsonObject]] = []
        self.changes: list[JsonObject] = []
        self._credentials = LeasedCredentials({name: Secret(name, text) for name, text in (credentials or {}).items()})
        self._results = dict(results or {})
        self._shared = dict(shared or {})
        self._invocation_id = InvocationId(invocation_id)
        self._canceled = threading.Event()
        self._cancel_reason: AbortReason | None = None

    @property
    def invocation_id(self) -> InvocationId:
        """The id given by the test."""
        return self._invocation_id

    def cancel(self, reason: AbortReason = AbortReason.USER_INTERRUPTION) -> None:
        """Ask the function to stop, as `rt.cancel` does."""
        self._cancel_reason = reason
        self._canceled.set()

    @property
    def is_canceled(self) -> bool:
        """Whether `cancel` was called."""
        return self._canceled.is_set()

    @property
    def cancel_reason(self) -> AbortReason | None:
        """The reason given to `cancel`."""
        return self._cancel_reason

    def wait_for_cancel(self, timeout: float | None = None) -> bool:
        """Block until `cancel` is called; return whether it was before the timeout."""
        return self._canceled.wait(timeout)

    async def call(self, name: str, arguments: JsonObject) -> ToolResult:
        """Record a nested call and return the prepared result."""
        return self.call_and_wait(name, arguments)

    def call_and_wait(self, name: str, arguments: JsonObject) -> ToolResult:
        """Record a nested call and return the prepared result.

        Raises:
            ConfigError: the test prepared none.
        """
        self.calls.append((name, arguments))
        if name not in self._results:
            raise ConfigError(
                f"the function called {name!r}, and the test has no result for it; "
                f"add FakeContext(results={{{name!r}: …}})"
            )
        prepared = self._results[name]
        return self._result(prepared(arguments) if callable(prepared) else prepared)

    def _result(self, prepared: Prepared) -> ToolResult:
        if isinstance(prepared, ToolResult):
            return prepared
        place = len(self.calls)
        nested, result_id = InvocationId(f"{self._invocation_id}-{place}"), ResultId(f"res_test-{place}")
        created_at = timestamp(EPOCH_NS)
        if isinstance(prepared, Exception):
            error = _error_of(prepared)
            return result_of_failure(error, result_id=result_id, invocation_id=nested, created_at=created_at)
        if isinstance(prepared, str):
            return plain_result(prepared, UNSET, nested, result_id, created_at)
        return plain_result(json_bytes(prepared).decode(), prepared, nested, result_id, created_at)

    @property
    def shared(self) -> Mapping[str, Json]:
        """A copy of the shared context given by the test."""
        return dict(self._shared)

    def change_shared(self, changes: JsonObject) -> None:
        """Record a change of the shared context."""
        self.changes.append(changes)

    @property
    def credentials(self) -> Mapping[str, Secret]:
        """The credentials given by the test."""
        return self._credentials

    def progress(self, message: str | None = None, *, percent: float | None = None, step: str | None = None) -> None:
        """Record a report of progress."""
        self.reports.append(Progress(message, percent, step))

    def log(self, message: str, *, level: int = logging.INFO) -> None:
        """Record a message."""
        self.messages.append(message)

    def partial(self, value: Json) -> None:
        """Record a part of the result."""
        self.partials.append(value)


def _error_of(failure: Exception) -> ToolError:
    if isinstance(failure, ToolFailure):
        return failure.error
    message = f"{type(failure).__name__}: {words_of(failure)}"
    return ToolError(error_class=ErrorClass.EXECUTION_FAILED, message=message, phase=Phase.EXECUTE)
