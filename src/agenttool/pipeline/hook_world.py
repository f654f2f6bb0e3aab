"""What the hooks of one call get: the time, its input without its secrets, and no longer than they were given."""

from collections.abc import Callable, Coroutine
from dataclasses import replace

from agenttool.pipeline.call import Call
from agenttool.pipeline.guard import guard
from agenttool.pipeline.tool import Tool
from agenttool.records import AbortReason, JsonObject
from agenttool.results.redaction import MARKER, reject_moved_markers, restore_redacted
from agenttool.scheduler.drive import Drive, Stopped

GRACE_S = 0.5
"""How long a hook may go on after it was told to stop; enough for a command to be ended properly."""


class HookWorld:
    """The surroundings of the hooks of one call."""

    __slots__ = ("_call", "_redactor")

    def __init__(self, call: Call, tool: Tool) -> None:
        """Take the call that the hooks stand beside, and its tool, which says what is sensitive."""
        self._call = call
        self._redactor = tool.redactor

    def now_ns(self) -> int:
        """Give the time."""
        return self._call.core.now_ns()

    def shown(self, value: JsonObject) -> JsonObject:
        """Give an input without its secrets; where all of it is one, only the names of its members are left."""
        if self._redactor is None:
            return value
        redacted = self._redactor.redact(value)
        return redacted if isinstance(redacted, dict) else dict.fromkeys(value, MARKER)

    def restored(self, value: JsonObject, before: JsonObject) -> JsonObject:
        """Put back what a hook was not shown and left standing.

        Raises:
            RecordError: it moved what it was not shown, so that nobody knows what it means.
        """
        if self._redactor is None:
            return value
        reject_moved_markers(value, self.shown(before))
        return {name: restore_redacted(member, before.get(name)) for name, member in value.items()}

    async def attempt(
        self, work: Callable[[], Coroutine[object, object, object]], *, timeout_s: float
    ) -> tuple[object, Exception | None]:
        """Run a hook inside the caller's task, and walk away from it at its deadline or when the call is stopped.

        What it says after that does not count: it may be an answer to the interruption rather than to the question.
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
        self._hear_of(drive)
        if is_late:
            left = isinstance(answer, Stopped) and answer.abandoned
            words = f"no answer within {timeout_s:g} s" + ("; it ignored that, and was left behind" if left else "")
            return None, TimeoutError(words)
        if drive.stop_asked or isinstance(answer, Stopped):
            return None, InterruptedError("it was stopped before it answered")
        return answer, fault

    def _hear_of(self, drive: Drive) -> None:
        """Remember that the caller's own task was canceled; that goes on once the result is written."""
        call = self._call
        if drive.caller_canceled is not None:
            call.interrupted = call.interrupted or drive.caller_canceled
            call.abort_reason = call.abort_reason or AbortReason.USER_INTERRUPTION
