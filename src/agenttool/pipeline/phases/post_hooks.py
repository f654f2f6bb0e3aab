"""Phase 10: run hooks after the tool; they see the model-facing output."""

from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import OutputReplaced
from agenttool.pipeline.failures import failed_result
from agenttool.pipeline.hook_runs import refuse_stop_and_fault, run_hooks_at, visible
from agenttool.pipeline.phases.map_result import map_result
from agenttool.records import UNSET, ErrorClass, HookEvent, Phase
from agenttool.results.mapping import Mapped
from agenttool.results.persistence import mapped_payloads, with_stored_output

_PHASE = Phase.POST_HOOKS


async def post_hooks(call: Call, mapped: Mapped) -> Mapped:
    """Run the hooks of success or failure; a stop or a fault turns a success into a failure."""
    tool = call.tool
    if tool is None:
        return mapped
    event = HookEvent.POST_TOOL_USE_FAILURE if mapped.result.is_error else HookEvent.POST_TOOL_USE
    if event not in tool.hooks or not call.started_ns:
        return mapped
    call.phase = _PHASE
    outcome = await run_hooks_at(call, tool, event, call.call_input, output=visible(mapped))
    try:
        refuse_stop_and_fault(call, outcome, fault_class=ErrorClass.POST_HOOK_FAILED)
    except ToolFailure as failure:
        payloads = () if mapped.result.is_error else mapped_payloads(mapped)
        return with_stored_output(failed_result(call, failure.error), payloads)
    update = next((run for run in reversed(outcome.runs) if run.reply.updated_output is not UNSET), None)
    if update is None:
        return mapped
    call.note(steps.OUTPUT_CHANGED, OutputReplaced(update.hook.name))
    return map_result(call, update.reply.updated_output)
