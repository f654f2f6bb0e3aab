"""One round of hooks at one place: ask, note every run, and turn a stop or a fault into the failure it is."""

from dataclasses import replace
from typing import cast

from agenttool.errors import ToolFailure
from agenttool.hooks.execution import HookRun, HookRuns, run_hooks
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import HookRan
from agenttool.pipeline.hook_world import HookWorld
from agenttool.pipeline.stopping import refuse_if_stopped
from agenttool.pipeline.tool import Tool
from agenttool.policy.votes import HookVote
from agenttool.ports.facts import Step
from agenttool.ports.hooks import HookQuestion
from agenttool.records import Behavior, ErrorClass, HookEvent, HookId, Json, JsonObject
from agenttool.results.failure import guided
from agenttool.results.mapping import Mapped
from agenttool.results.redaction import Scrubber

_STEPS: dict[HookEvent, tuple[Step, Step]] = {
    HookEvent.PRE_TOOL_USE: (steps.PRE_HOOKS_STARTED, steps.PRE_HOOKS_COMPLETED),
    HookEvent.POST_TOOL_USE: (steps.POST_HOOKS_STARTED, steps.POST_HOOKS_COMPLETED),
    HookEvent.POST_TOOL_USE_FAILURE: (steps.POST_HOOKS_STARTED, steps.POST_HOOKS_COMPLETED),
    HookEvent.PERMISSION_REQUEST: (steps.SIDE_HOOKS_STARTED, steps.SIDE_HOOKS_COMPLETED),
    HookEvent.PERMISSION_DECISION: (steps.SIDE_HOOKS_STARTED, steps.SIDE_HOOKS_COMPLETED),
    HookEvent.RESULT_PERSISTENCE: (steps.SIDE_POST_STARTED, steps.SIDE_POST_COMPLETED),
}


async def hook_round(
    call: Call,
    tool: Tool,
    event: HookEvent,
    value: JsonObject,
    *,
    output: Json = None,
    details: JsonObject | None = None,
) -> HookRuns:
    """Ask the hooks of one place in order, and note each run between a started and a completed event.

    What they think of the permission is kept for the decision.
    """
    started, completed = _STEPS[event]
    hooks = tool.hooks_at(event)
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
    rounds = await run_hooks(hooks, question, HookWorld(call, tool))
    rounds.runs = [_scrubbed(run, call.scrubber) for run in rounds.runs]
    for run in rounds.runs:
        call.hook_runs += 1
        if run.reply.progress is not None:
            call.report(run.reply.progress)
        call.hook_context += run.reply.additional_context
        hook_id = HookId(f"hook_{call.unique}-{call.hook_runs}")
        if run.reply.permission_result is not None:
            call.hints += (_hint(run, hook_id, run.reply.permission_result),)
        call.note(completed, HookRan(run, event, hook_id))
    return rounds


def _hint(run: HookRun, hook_id: HookId, behavior: Behavior) -> HookVote:
    return HookVote(hook=run.hook.name, hook_ref=hook_id, behavior=behavior, message=run.reply.permission_reason)


def visible(mapped: Mapped) -> Json:
    """Show hooks what a model will read; the raw output may hold what nobody should see (G-28)."""
    return [item.text for item in mapped.result.model_facing_content or () if item.text is not None]


def _scrubbed(run: HookRun, scrubber: Scrubber | None) -> HookRun:
    """Take the call's secrets out of what a hook said, before it is told to anyone."""
    if scrubber is None:
        return run
    reply = run.reply

    def clean(text: str | None) -> str | None:
        return None if text is None else scrubber.text(text)

    said = replace(
        reply,
        message=clean(reply.message),
        progress=clean(reply.progress),
        stop=clean(reply.stop),
        permission_reason=clean(reply.permission_reason),
        additional_context=tuple(cast("JsonObject", scrubber.value(each)) for each in reply.additional_context),
    )
    return replace(run, reply=said, fault=clean(run.fault))


def refuse_stop_and_fault(call: Call, rounds: HookRuns, *, fault_class: ErrorClass) -> None:
    """End the call if a hook said stop or went wrong.

    A call that was stopped before its tool ran was canceled, whatever became of the hook that was stopped with it.
    Once the tool has run, a hook that was kept from answering is a hook that failed.

    Raises:
        ToolFailure: canceled, hook_blocked, or the class that a fault has at this place.
    """
    if not call.started_ns:
        refuse_if_stopped(call)
    failed, stopped = rounds.failed, rounds.stopped_by
    if failed is not None:
        raise ToolFailure(guided(fault_class, phase=call.phase, message=failed.fault or "a hook failed"))
    if stopped is not None:
        message = f"hook {stopped.hook.name!r} stopped the call: {stopped.reply.stop}"
        raise ToolFailure(guided(ErrorClass.HOOK_BLOCKED, phase=call.phase, message=message))
