"""Phase 1: find the tool by name or alias on the surface of the call only."""

from math import ceil

from agenttool.catalog.entry import Entry
from agenttool.catalog.surface import Surface
from agenttool.catalog.unresolved import Unresolved, not_shown, unknown_surface
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.cancellation import failure_of_stop
from agenttool.pipeline.tool import Tool
from agenttool.ports.calls import ALL_SHOWN
from agenttool.records import NextAction, Phase, ToolError, replace, unresolved_tool
from agenttool.results.failure import guided
from agenttool.results.redaction import InputMask, compile_redactor

_PHASE = Phase.RESOLVE_TOOL

REDACT_ALL_VALUES = compile_redactor(["*"])
"""Redacts all values: without a tool there is no list of sensitive fields."""


def find_tool(call: Call) -> Tool | None:
    """Return the tool that a call names, if its surface has it; change nothing."""
    found = None if call.surface is None else call.surface.resolve(call.request.name)
    return call.core.tools[found] if isinstance(found, Entry) else None


def resolve_tool(call: Call) -> Tool:
    """Return the tool for the requested name.

    Raises:
        ToolFailure: unknown_tool, blocked_tool, schema_not_loaded.
    """
    surface = call.surface
    if surface is None:
        raise _unresolved(call, call.unresolved or unknown_surface(None))
    found = surface.entries[call.request.name]
    if found is None or call.shown is not ALL_SHOWN:
        found = _look_up(call, surface)
    call.tool = tool = call.core.tools[found]
    call.tool_id = tool.tool_id
    if call.secrets is not None:
        call.secrets.mask = InputMask(tool.redactor, call.secrets.mask.scrubber)
        call.request = replace(call.request, redactor=call.secrets.mask)
    elif tool.redactor is not None:
        call.request = replace(call.request, redactor=tool.redactor)
    return tool


def _look_up(call: Call, surface: Surface) -> Entry:
    """Return a tool that is called by an alias, or that the caller may not have been shown.

    Raises:
        ToolFailure: unknown_tool, blocked_tool, schema_not_loaded.
    """
    found = surface.entries[call.request.name] or surface.resolve(call.request.name, call.shown.known_as)
    unseen = call.shown.unseen
    if unseen and not isinstance(found, Unresolved) and found.tool_id in unseen:
        found = not_shown(found.qualified_name, unseen[found.tool_id])
    if isinstance(found, Unresolved):
        raise _unresolved(call, found)
    return found


def _unresolved(call: Call, found: Unresolved) -> ToolFailure:
    name = call.request.name if call.scrubber is None else call.scrubber.text(call.request.name)
    call.tool_id = unresolved_tool(name)
    call.request = replace(call.request, name=name, redactor=REDACT_ALL_VALUES)
    call.note(steps.PLANNED, call.request)
    if call.stop_state is not None and call.stop_state.reason is not None:
        return ToolFailure(failure_of_stop(call))
    error = guided(found.error_class, phase=_PHASE, message=found.message, code=found.code, effects=False)
    return ToolFailure(error if found.awaits is None else _awaiting(call, error, found.awaits))


def _awaiting(call: Call, error: ToolError, provider: str) -> ToolError:
    """Return an error that says why a provider is awaited, and when it is tried again."""
    status = call.core.host.source_status(provider)
    at_ns = None if status is None else status.next_try_at_ns
    seconds = None if at_ns is None else float(max(1, ceil((at_ns - call.core.now_ns()) / 1e9)))
    reason = "" if status is None or status.fault is None else f": {status.fault}"
    return replace(
        error,
        message=f"{error.message}{reason}",
        next_action=NextAction.WAIT_FOR_PROVIDER,
        retry_after=seconds,
    )
