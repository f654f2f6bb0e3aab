"""What becomes of a call whose process died: it goes on, or it ends with a result that says what is known."""

from agenttool.codec import parse_object
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.approval import conclude
from agenttool.pipeline.call import Call
from agenttool.pipeline.core import Core
from agenttool.pipeline.failed import error_of_interruption, failed
from agenttool.pipeline.held import Held, Point, hold, kept, settle
from agenttool.pipeline.phases.emit_terminal import emit_terminal
from agenttool.pipeline.phases.execute import execute, run
from agenttool.pipeline.phases.map_result import map_result
from agenttool.pipeline.phases.schedule import release, schedule
from agenttool.pipeline.run import finish
from agenttool.pipeline.tool import Tool
from agenttool.policy.approvals import Answered
from agenttool.ports.stores import OpenCall
from agenttool.records import ErrorClass, JsonObject, Phase, ToolError, ToolResult
from agenttool.results.failure import guided
from agenttool.results.mapping import Mapped

MAX_ATTEMPTS = 3
"""How many processes may begin to run one call before it is taken for the one that kills them."""


def recalled(core: Core, opened: OpenCall, held: Held, tool: Tool) -> Call:
    """Make the call anew, as it was when it was held."""
    call = Call(
        core,
        held.request,
        None,
        opened.invocation_id.partition("_")[2],
        opened.invocation_id,
        is_special=True,
        tool_id=tool.tool_id,
        status=held.status,
        events=held.events,
        phase=Phase.PERMISSION if opened.kind == Point.ASKED else Phase.EXECUTE,
        tool=tool,
        decisions=held.decisions,
        mutations=held.mutations,
        progress=held.progress,
        hook_runs=held.hook_runs,
        started_ns=held.started_ns,
        attempts=held.attempts,
        is_held=True,
    )
    call.request = held.request if tool.redactor is None else held.request.with_redactor(tool.redactor)
    call.learn_secrets(parse_object(held.call_input))
    return call


async def resume_call(call: Call, tool: Tool, held: Held, answered: Answered | None) -> ToolResult:
    """Go on with a call of a process that died, under the same id and with the same inputs."""
    call.core.calls[call.invocation_id] = call
    call_input = parse_object(held.call_input)
    try:
        call.note(steps.TAKEN_UP, {"attempt": call.attempts + 1})
        if held.question is not None:
            mapped = await _go_on(call, tool, held, answered)
        else:
            mapped = await _run_again(call, tool, call_input)
    except ToolFailure as failure:
        mapped = failed(call, failure.error)
    except BaseException as crash:  # noqa: BLE001 -- as in run_call: there is a result whatever happens
        mapped = failed(call, error_of_interruption(call, crash))
    result = await finish(call, mapped)
    emit_terminal(call, result, mapped.chars)
    return await kept(call, result)


async def _go_on(call: Call, tool: Tool, held: Held, answered: Answered | None) -> Mapped:
    question = held.question
    if question is None or tool.subject.declaration_digest != held.declaration_digest:
        raise ToolFailure(_changed(tool))
    call_input = await conclude(call, tool, parse_object(held.call_input), question, answered)
    await schedule(call, tool, call_input)
    try:
        output = await execute(call, tool, call_input)
    finally:
        release(call)
    return map_result(call, output)


async def _run_again(call: Call, tool: Tool, call_input: JsonObject) -> Mapped:
    """Run a tool once more that was declared safe to repeat; of any other nobody can say what it did."""
    call.phase = Phase.EXECUTE
    call.attempts += 1
    if tool.repeatability is None or call.attempts > MAX_ATTEMPTS:
        raise ToolFailure(_unknown(call))
    await schedule(call, tool, call_input)
    try:
        call.phase = Phase.EXECUTE
        call.call_input = call_input
        hold(call, Point.RUNNING, call_input)
        await settle(call)
        output = await run(call, tool)
    finally:
        release(call)
    return map_result(call, output)


def _unknown(call: Call) -> ToolError:
    message = "the process died while the tool ran, so that nobody knows what it did; look before you repeat it"
    return guided(
        ErrorClass.EXECUTION_FAILED, phase=Phase.EXECUTE, message=message, code="unknown_after_crash", effects=True
    )


def _changed(tool: Tool) -> ToolError:
    message = f"{tool.name!r} has changed since it was asked about, so the answer does not cover it; call it again"
    return guided(
        ErrorClass.PERMISSION_DENIED, phase=Phase.PERMISSION, message=message, code="declaration_changed", effects=False
    )
