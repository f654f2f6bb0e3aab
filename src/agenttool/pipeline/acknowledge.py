"""Store open calls before their callers get the ids, so that none of these calls is lost with the process.

Most calls need nothing: they end before their caller knows them, or have a checkpoint. A call that waits for others of
its batch has no fact yet, and one that waits for its turn has no checkpoint. Only an early response needs both, so the
path of a call does not pay for them.
"""

from collections.abc import Iterable

from agenttool.codec import parse_object
from agenttool.errors import RecordError
from agenttool.journal import steps
from agenttool.pipeline.call import Call, Core
from agenttool.pipeline.checkpoint import CheckpointKind, save_checkpoint, save_running_checkpoint
from agenttool.pipeline.phases.resolve_tool import REDACT_ALL_VALUES, find_tool
from agenttool.pipeline.tool import Tool
from agenttool.ports.calls import ALL_SHOWN
from agenttool.ports.evidence import sealed_digest
from agenttool.records import InvocationId, InvocationStatus, JsonObject, replace, unresolved_tool


async def store_open_calls(core: Core, invocation_ids: Iterable[InvocationId]) -> None:
    """Return once the open calls of this process are on disk; other processes can continue those that wait to start.

    Raises:
        StoreError: they could not be stored.
    """
    if core.durable:
        await core.host.ensure_lease()  # without one, another process could claim them at once
    for each in invocation_ids:
        call = core.registry.calls.get(each)
        if call is not None and call.result is None and call.parent is None and not call.has_checkpoint:
            _store(call)
    if core.durable:
        await core.journal.log.settle()


def _store(call: Call) -> None:
    if call.unwritten is not None:
        call.flush()
    elif call.status is None:
        _store_planned(call)
    elif call.status is InvocationStatus.QUEUED:
        save_checkpoint(call, CheckpointKind.APPROVED, call.final_input)
    elif call.status is InvocationStatus.RUNNING and call.tool is not None and _may_run_again(call, call.tool):
        save_running_checkpoint(call, call.tool, call.final_input)


def _may_run_again(call: Call, tool: Tool) -> bool:
    """Return whether a running call can run again after a crash; nested calls that it has made would not be found."""
    return not tool.has_effects and call.nesting is None


def _store_planned(call: Call) -> None:
    """Record a call that has not started, with a checkpoint if another process can run it from its request alone."""
    tool = call.tool = find_tool(call)
    call.tool_id = unresolved_tool(call.request.name) if tool is None else tool.tool_id
    arguments = _arguments(call)
    if tool is not None and tool.redactor is not None and arguments is not None:
        call.learn_secrets(tool.redactor, arguments)
    # Before its arguments are validated, a sensitive value can be anywhere in them.
    hides_all = tool is None or tool.redactor is not None
    call.note(steps.PLANNED, replace(call.request, redactor=REDACT_ALL_VALUES) if hides_all else call.request)
    if call.background is not None:
        call.background.facts = None  # they would have the first step twice
    if arguments is None or call.fault is not None or call.shown is not ALL_SHOWN or call.is_requested:
        return  # it fails or ends as soon as it runs, or its surface cannot be restored
    if call.secrets is not None:
        call.note(steps.PLAN_SEALED, {"digest": sealed_digest(arguments, call.digest_key)})
    save_checkpoint(call, CheckpointKind.PLANNED, {})


def _arguments(call: Call) -> JsonObject | None:
    try:
        return parse_object(call.request.model_input)
    except RecordError:
        return None
