"""Run the hooks of one event for a call, record every run, and raise the failure of a stop or a fault."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import cast

from agenttool.errors import ToolFailure
from agenttool.hooks.execution import HookRun, HookRuns, run_hooks
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.cancellation import refuse_if_stopped
from agenttool.pipeline.evidence import HookRan
from agenttool.pipeline.guard import guard
from agenttool.pipeline.tool import Tool
from agenttool.policy.votes import HookVote
from agenttool.ports.facts import Step
from agenttool.ports.hooks import HookQuestion
from agenttool.records import AbortReason, Behavior, ErrorClass, HookEvent, HookId, Json, JsonObject
from agenttool.records import replace as replace_record
from agenttool.results.failure import guided
from agenttool.results.mapping import Mapped
from agenttool.results.redaction import MARKER, Scrubber, reject_moved_markers, restore_redacted
from agenttool.scheduler.drive import Drive, Stopped

GRACE_S = 0.5
"""How long a hook may run after it was asked to stop; enough to terminate a command."""

_DECISION = HookEvent.PERMISSION_DECISION
_REFUSALS = frozenset({ErrorClass.PERMISSION_DENIED, ErrorClass.POLICY_BLOCKED, ErrorClass.APPROVAL_REJECTED})


class HookWorld:
    """The environment of the hooks of one call."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    def now_ns(self) -> int:
        """Return the current time."""
        return self._call.core.now_ns()

    def shown(self, value: JsonObject) -> JsonObject:
        """Return a redacted input; if all of it is sensitive, only the names of its members remain."""
        mask = self._call.mask
        if mask is None:
            return value
        redacted = mask.redact(value)
        return redacted if isinstance(redacted, dict) else dict.fromkeys(value, MARKER)

    def restored(self, value: JsonObject, before: JsonObject) -> JsonObject:
        """Return an input with the redacted values restored.

        Raises:
            RecordError: the hook moved a redacted value, so its meaning is unclear.
        """
        if self._call.mask is None:
            return value
        shown = self.shown(before)
        reject_moved_markers(value, shown)
        return cast("JsonObject", restore_redacted(value, before, shown))

    async def attempt(
        self, work: Callable[[], Coroutine[object, object, object]], *, timeout_s: float
    ) -> tuple[object, Exception | None]:
        """Run a hook in the caller's task, until its deadline or until the call is stopped.

        A later answer is dropped, because it may be a reaction to the interruption.
        """
        call, core = self._call, self._call.core
        call.drive = drive = Drive(
            replace(core.timing.grace_period, after_stop=min(core.timing.grace_period.after_stop, GRACE_S))
        )
        is_late = False

        def time_out() -> None:
            nonlocal is_late
            is_late = True
            drive.stop()

        deadline = core.timing.deadlines.arm(core.timing.deadlines.now() + timeout_s, time_out)
        try:
            answer, fault = await guard(lambda: drive.run(work()))
        finally:
            core.timing.deadlines.cancel(deadline)
            call.drive = None
        self._record_interruption(drive)
        if is_late:
            left = isinstance(answer, Stopped) and answer.abandoned
            message = f"no answer within {timeout_s:g} s" + ("; it ignored that, and was left behind" if left else "")
            return None, TimeoutError(message)
        if drive.stop_asked or isinstance(answer, Stopped):
            return None, InterruptedError("it was stopped before it answered")
        return answer, fault

    def _record_interruption(self, drive: Drive) -> None:
        """Store a cancellation of the caller's task, to raise it once the result is written."""
        call = self._call
        if drive.caller_canceled is not None:
            call.stop.interrupted = call.stop.interrupted or drive.caller_canceled
            call.stop.reason = call.stop.reason or AbortReason.USER_INTERRUPTION


_STEPS: dict[HookEvent, tuple[Step, Step]] = {
    HookEvent.PRE_TOOL_USE: (steps.PRE_HOOKS_STARTED, steps.PRE_HOOKS_COMPLETED),
    HookEvent.POST_TOOL_USE: (steps.POST_HOOKS_STARTED, steps.POST_HOOKS_COMPLETED),
    HookEvent.POST_TOOL_USE_FAILURE: (steps.POST_HOOKS_STARTED, steps.POST_HOOKS_COMPLETED),
    HookEvent.PERMISSION_REQUEST: (steps.SIDE_HOOKS_STARTED, steps.SIDE_HOOKS_COMPLETED),
    HookEvent.PERMISSION_DECISION: (steps.SIDE_HOOKS_STARTED, steps.SIDE_HOOKS_COMPLETED),
    HookEvent.RESULT_PERSISTENCE: (steps.SIDE_POST_STARTED, steps.SIDE_POST_COMPLETED),
}


async def run_hooks_at(
    call: Call,
    tool: Tool,
    event: HookEvent,
    value: JsonObject,
    *,
    output: Json = None,
    details: JsonObject | None = None,
) -> HookRuns:
    """Run the hooks of one event in order, and record a started and a completed step.

    Their permission votes are stored for the decision.
    """
    started, completed = _STEPS[event]
    hooks = tool.hooks.get(event, ())
    question = HookQuestion(
        hook_event=event,
        invocation_id=call.invocation_id,
        tool_id=tool.tool_id,
        tool_name=tool.name,
        input=value,
        output=output,
        details=details,
    )
    call.note(started, {"hook_event": event.value, "hooks": len(hooks)})
    outcome = await run_hooks(hooks, question, HookWorld(call))
    outcome.runs = [_scrubbed(run, call.scrubber) for run in outcome.runs]
    for run in outcome.runs:
        call.counts.hook_runs += 1
        if run.reply.progress is not None:
            call.report(run.reply.progress)
        hook_id = HookId(f"hook_{call.unique}-{call.counts.hook_runs}")
        behavior, reason = run.reply.permission_result, run.reply.permission_reason
        if behavior is not None:
            vote = HookVote(hook=run.hook.name, hook_ref=hook_id, behavior=behavior, message=reason)
            call.votes = replace_record(call.votes, hooks=(*call.votes.hooks, vote))
        call.note(completed, HookRan(run, event, hook_id))
    return outcome


def visible(mapped: Mapped) -> Json:
    """Return the model-facing text, which hooks may see; the raw output may contain secrets (G-28)."""
    return [item.text for item in mapped.result.model_facing_content or () if item.text is not None]


def _scrubbed(run: HookRun, scrubber: Scrubber | None) -> HookRun:
    """Return a run without the secrets of the call in its texts."""
    if scrubber is None:
        return run
    reply = run.reply

    def clean(text: str | None) -> str | None:
        return None if text is None else scrubber.text(text)

    scrubbed = replace_record(
        reply,
        message=clean(reply.message),
        progress=clean(reply.progress),
        stop=clean(reply.stop),
        permission_reason=clean(reply.permission_reason),
        additional_context=tuple(cast("JsonObject", scrubber.value(each)) for each in reply.additional_context),
    )
    return replace(run, reply=scrubbed, fault=clean(run.fault))


def refuse_stop_and_fault(call: Call, outcome: HookRuns, *, fault_class: ErrorClass) -> None:
    """Raise the failure if a hook stopped the call or failed.

    A call that is stopped before its tool runs is canceled, even if the interrupted hook failed. Once the tool has
    run, an interrupted hook counts as failed.

    Raises:
        ToolFailure: canceled, hook_blocked, or `fault_class`.
    """
    if not call.started_ns:
        refuse_if_stopped(call)
    failed, stopped = outcome.failed, outcome.stopped_by
    if failed is not None:
        raise ToolFailure(guided(fault_class, phase=call.phase, message=failed.fault or "a hook failed"))
    if stopped is not None:
        message = f"hook {stopped.hook.name!r} stopped the call: {stopped.reply.stop}"
        raise ToolFailure(guided(ErrorClass.HOOK_BLOCKED, phase=call.phase, message=message))


def decide_with_hooks(
    call: Call, tool: Tool, proposed: JsonObject, deciding: Awaitable[JsonObject]
) -> Awaitable[JsonObject]:
    """Await the decision about a call, run its hooks, and return the input that may run.

    Raises:
        ToolFailure: the decision was a refusal, which hooks cannot change; or a hook stopped the call or failed.
    """
    return _run_decision_hooks(call, tool, proposed, deciding) if _DECISION in tool.hooks else deciding


async def _run_decision_hooks(
    call: Call, tool: Tool, proposed: JsonObject, deciding: Awaitable[JsonObject]
) -> JsonObject:
    try:
        call_input = await deciding
    except ToolFailure as refused:
        if refused.error.error_class in _REFUSALS:
            await _run_hooks(call, tool, proposed, Behavior.DENY)
        raise
    outcome = await _run_hooks(call, tool, call_input, Behavior.ALLOW)
    refuse_stop_and_fault(call, outcome, fault_class=ErrorClass.HOOK_FAILED)
    return call_input


async def _run_hooks(call: Call, tool: Tool, value: JsonObject, behavior: Behavior) -> HookRuns:
    return await run_hooks_at(call, tool, _DECISION, value, details={"behavior": behavior.value})
