"""Phase 9: native output to result, exactly once."""

from agenttool.journal.moments import timestamp
from agenttool.pipeline.call import Call
from agenttool.records import Phase, ResultId
from agenttool.results.mapping import Mapped, map_output
from agenttool.results.plan import PLAIN

_PHASE = Phase.MAP_RESULT


def map_result(call: Call, output: object) -> Mapped:
    """Turn what the tool gave into the draft of its result.

    Raises:
        ToolFailure: result_mapping_failed.
    """
    call.phase = _PHASE
    plan = PLAIN if call.tool is None else call.tool.mapping
    result_id: ResultId = "res_" + call.unique  # pyright: ignore[reportAssignmentType] -- spares every call the call of a NewType
    return map_output(output, plan, call.invocation_id, result_id, timestamp(call.core.now_ns()), call.scrubber)
