"""Phase 1: find the tool by name or alias inside the current surface, and nowhere else."""

from agenttool.catalog.catalog import Entry
from agenttool.catalog.surface import NO_SURFACE
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.tool import Tool
from agenttool.records import Phase, replace
from agenttool.results.failure import guided
from agenttool.results.redaction import compile_redactor

_PHASE = Phase.RESOLVE_TOOL

_NAMES_ONLY = compile_redactor(["*"])
"""A call without a tool has no list of sensitive fields, so that any of its values may be one."""


def resolve_tool(call: Call) -> Tool:
    """Find the tool that a name on this surface leads to.

    Raises:
        ToolFailure: unknown_tool, blocked_tool, schema_not_loaded.
    """
    found = NO_SURFACE if call.surface is None else call.surface.resolve(call.request.name)
    if not isinstance(found, Entry):
        call.request = replace(call.request, redactor=_NAMES_ONLY)
        call.core.journal.note(call, steps.PLANNED, call.request)
        raise ToolFailure(guided(found.error_class, phase=_PHASE, message=found.message, code=found.code))
    tool = call.core.tools[found]
    call.tool = tool
    call.tool_id = tool.tool_id
    return tool
