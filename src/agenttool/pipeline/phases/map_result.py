"""Phase 9: native output to result, exactly once."""

from agenttool.journal.moments import timestamp
from agenttool.pipeline.call import Call
from agenttool.pipeline.tool import Tool
from agenttool.records import Phase
from agenttool.results.mapping import Mapped, map_output

_PHASE = Phase.MAP_RESULT


def map_result(call: Call, tool: Tool, output: object) -> Mapped:
    """Turn what the tool gave into the draft of its result.

    Raises:
        ToolFailure: result_mapping_failed.
    """
    call.phase = _PHASE
    return map_output(output, tool.mapping, call.unique, timestamp(call.core.now_ns()), call.scrubber)
