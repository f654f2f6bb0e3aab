"""Phase 9: map the native output to a result, exactly once."""

from agenttool.codec.moments import timestamp
from agenttool.errors import ToolFailure
from agenttool.pipeline.call import Call
from agenttool.pipeline.failures import failed_result
from agenttool.records import Phase
from agenttool.results.mapping import PLAIN, Mapped, MappingPlan, map_output
from agenttool.results.payloads import Payload
from agenttool.results.persistence import native_payloads, with_stored_output

_PHASE = Phase.MAP_RESULT


def map_result(call: Call, output: object) -> Mapped:
    """Map the output to a draft of the result; if that fails, store the output beside the error."""
    call.phase = _PHASE
    plan = PLAIN if call.tool is None else call.tool.mapping
    scrubber = None if call.secrets is None else call.secrets.scrubber
    try:
        return map_output(output, plan, call.invocation_id, timestamp(call.core.now_ns()), scrubber, call.mutation_refs)
    except ToolFailure as failure:
        return with_stored_output(failed_result(call, failure.error), _readable(call, plan, output))


def _readable(call: Call, plan: MappingPlan, output: object) -> tuple[Payload, ...]:
    """Return the payloads of an output that can be encoded; none if all of it is redacted."""
    if plan.redactor is not None and plan.redactor.is_whole:
        return ()
    try:
        return native_payloads(output, redactor=plan.redactor, scrubber=call.scrubber)
    except ToolFailure:
        return ()
