"""Run the hooks of one event, record every run, and raise the failure of a stop or a fault."""

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
    """Run the hooks of one event in order, and record a started and a completed step.

    Their permission votes are stored for the decision.
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
    """Return the model-facing text, which hooks may see; the raw output may contain secrets (G-28)."""
    return [item.text for item in mapped.result.model_facing_content or () if item.text is not None]


def _scrubbed(run: HookRun, scrubber: Scrubber | None) -> HookRun:
    """Return a run without the secrets of the call in its texts."""
    if scrubber is None:
        return run
    reply = run.reply

    def clean(text: str | None) -> str | None:
        return None if text is None else scrubber.text(text)

    scrubbed = replace(
        reply,
        message=clean(reply.message),
        progress=clean(reply.progress),
        stop=clean(reply.stop),
        permission_reason=clean(reply.permission_reason),
        additional_context=tuple(cast("JsonObject", scrubber.value(each)) for each in reply.additional_context),
    )
    return replace(run, reply=scrubbed, fault=clean(run.fault))


def refuse_stop_and_fault(call: Call, rounds: HookRuns, *, fault_class: ErrorClass) -> None:
    """Raise the failure if a hook stopped the call or failed.

    A call that is stopped before its tool runs is canceled, even if the interrupted hook failed. Once the tool has
    run, an interrupted hook counts as failed.

    Raises:
        ToolFailure: canceled, hook_blocked, or `fault_class`.
    """
    if not call.started_ns:
        refuse_if_stopped(call)
    failed, stopped = rounds.failed, rounds.stopped_by
    if failed is not None:
        raise ToolFailure(guided(fault_class, phase=call.phase, message=failed.fault or "a hook failed"))
    if stopped is not None:
        message = f"hook {stopped.hook.name!r} stopped the call: {stopped.reply.stop}"
        raise ToolFailure(guided(ErrorClass.HOOK_BLOCKED, phase=call.phase, message=message))
