"""The environment of the hooks of one call: redacted input, a clock and timeouts."""

from collections.abc import Callable, Coroutine
from dataclasses import replace

from agenttool.pipeline.call import Call
from agenttool.pipeline.guard import guard
from agenttool.pipeline.tool import Tool
from agenttool.records import AbortReason, JsonObject
from agenttool.results.redaction import MARKER, reject_moved_markers, restore_redacted
from agenttool.scheduler.drive import Drive, Stopped

GRACE_S = 0.5
"""How long a hook may run after it was asked to stop; enough to terminate a command."""


class HookWorld:
    """The environment of the hooks of one call."""

    __slots__ = ("_call", "_redactor")

    def __init__(self, call: Call, tool: Tool) -> None:
        """Use the call of the hooks, and its tool, which declares sensitive fields."""
        self._call = call
        self._redactor = tool.redactor

    def now_ns(self) -> int:
        """Return the current time."""
        return self._call.core.now_ns()

    def shown(self, value: JsonObject) -> JsonObject:
        """Return a redacted input; if all of it is sensitive, only the names of its members remain."""
        if self._redactor is None:
            return value
        redacted = self._redactor.redact(value)
        return redacted if isinstance(redacted, dict) else dict.fromkeys(value, MARKER)

    def restored(self, value: JsonObject, before: JsonObject) -> JsonObject:
        """Return an input with the redacted values restored.

        Raises:
            RecordError: the hook moved a redacted value, so its meaning is unclear.
        """
        if self._redactor is None:
            return value
        reject_moved_markers(value, self.shown(before))
        return {name: restore_redacted(member, before.get(name)) for name, member in value.items()}

    async def attempt(
        self, work: Callable[[], Coroutine[object, object, object]], *, timeout_s: float
    ) -> tuple[object, Exception | None]:
        """Run a hook in the caller's task, until its deadline or until the call is stopped.

        A later answer is dropped, because it may be a reaction to the interruption.
        """
        call, core = self._call, self._call.core
        call.drive = drive = Drive(replace(core.patience, after_stop=min(core.patience.after_stop, GRACE_S)))
        is_late = False

        def time_out() -> None:
            nonlocal is_late
            is_late = True
            drive.stop()

        deadline = core.deadlines.arm(core.deadlines.now() + timeout_s, time_out)
        try:
            answer, fault = await guard(lambda: drive.run(work()))
        finally:
            core.deadlines.cancel(deadline)
            call.drive = None
        self._record_interruption(drive)
        if is_late:
            left = isinstance(answer, Stopped) and answer.abandoned
            words = f"no answer within {timeout_s:g} s" + ("; it ignored that, and was left behind" if left else "")
            return None, TimeoutError(words)
        if drive.stop_asked or isinstance(answer, Stopped):
            return None, InterruptedError("it was stopped before it answered")
        return answer, fault

    def _record_interruption(self, drive: Drive) -> None:
        """Store a cancellation of the caller's task, to raise it once the result is written."""
        call = self._call
        if drive.caller_canceled is not None:
            call.interrupted = call.interrupted or drive.caller_canceled
            call.abort_reason = call.abort_reason or AbortReason.USER_INTERRUPTION
