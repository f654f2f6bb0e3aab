"""Phase 1: find the tool by name or alias inside the current surface, and nowhere else."""

from agenttool.catalog.catalog import Entry
from agenttool.catalog.surface import NO_SURFACE
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.tool import Tool
from agenttool.records import Phase
from agenttool.results.failure import guided

_PHASE = Phase.RESOLVE_TOOL


def resolve_tool(call: Call) -> Tool:
    """Find the tool that a name on this surface leads to.

    Raises:
        ToolFailure: unknown_tool, blocked_tool, schema_not_loaded.
    """
    found = NO_SURFACE if call.surface is None else call.surface.resolve(call.request.name)
    if not isinstance(found, Entry):
        call.core.journal.note(call, steps.PLANNED, call.request)
        raise ToolFailure(guided(found.error_class, phase=_PHASE, message=found.message, code=found.code))
    tool = call.core.tools[found.tool_id]
    call.tool = tool
    call.tool_id = tool.tool_id
    return tool
