"""Phase 5: run hooks, which may add context, replace the input, vote on the permission, or stop the call."""

from agenttool.pipeline.call import Call
from agenttool.pipeline.hook_runs import refuse_stop_and_fault, run_hooks_at
from agenttool.pipeline.input_replacement import Replacement, replace_input
from agenttool.pipeline.tool import Tool
from agenttool.records import ErrorClass, HookEvent, InputStage, JsonObject, MutationSource, Phase

_PHASE = Phase.PRE_HOOKS
_EVENT = HookEvent.PRE_TOOL_USE


async def pre_hooks(call: Call, tool: Tool, observable: JsonObject) -> JsonObject:
    """Return the input that hooks propose, and store their votes for the permission phase.

    Raises:
        ToolFailure: hook_blocked, hook_failed, input_mutation_failed, schema_validation_failed, invalid_arguments.
    """
    call.phase = _PHASE
    call.publish()
    outcome = await run_hooks_at(call, tool, _EVENT, observable)
    refuse_stop_and_fault(call, outcome, fault_class=ErrorClass.HOOK_FAILED)
    proposed = observable
    if outcome.updated_input is not None:
        last = next(run for run in reversed(outcome.runs) if run.reply.updated_input is not None)
        by = Replacement(source=MutationSource.HOOK, source_ref=last.hook.name, from_stage=InputStage.OBSERVABLE_INPUT)
        proposed = replace_input(call, tool, observable, outcome.updated_input, by)
    return proposed
