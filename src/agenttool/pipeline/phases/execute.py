"""Phase 8: run the tool, inside the caller's own task, with a deadline and a way to stop it."""

from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.away import hand_over
from agenttool.pipeline.call import Call
from agenttool.pipeline.failed import error_of_crash, whole
from agenttool.pipeline.held import Point, hold, settle
from agenttool.pipeline.run_evidence import Scheduled
from agenttool.pipeline.started import Waiting, carry, pause, start
from agenttool.pipeline.stopping import refuse_if_stopped
from agenttool.pipeline.tool import Tool
from agenttool.records import ErrorClass, InvocationStatus, JsonObject, Phase, ToolError
from agenttool.results.failure import completed
from agenttool.scheduler.retry import Attempt, Refusal, Repeatability, next_attempt

_PHASE = Phase.EXECUTE


async def execute(call: Call, tool: Tool, call_input: JsonObject) -> object:
    """Run the tool and give its native output untouched; one that was declared safe to repeat is tried again.

    Raises:
        ToolFailure: execution_failed, timeout, dependency_unavailable, rate_limited, canceled.
    """
    call.phase = _PHASE
    refuse_if_stopped(call)
    call.call_input = call_input
    if call.status is InvocationStatus.QUEUED:
        call.started_ns = call.note(steps.RESUMED)
    else:
        call.started_ns = call.note(steps.STARTED, None if call.facts is None else Scheduled(call.facts))
    if tool.later is not None:
        return await hand_over(call, tool.later, lambda: run(call, tool))
    if call.core.durable and (tool.has_effects or call.is_held):
        hold(call, Point.RUNNING, call_input)
        await settle(call)
    return await run(call, tool)


async def run(call: Call, tool: Tool) -> object:
    """Run the tool, as often as it may be tried.

    Raises:
        ToolFailure: execution_failed, timeout, dependency_unavailable, rate_limited, canceled.
    """
    number = 1
    while True:
        try:
            output = start(call, tool.start(call))
            return await carry(call, output) if type(output) is Waiting else output
        except Exception as failure:
            error = whole(call, failure.error) if isinstance(failure, ToolFailure) else error_of_crash(call, failure)
            _heed(call, tool, error)
            wait = None if tool.repeatability is None else _wait(call, tool.repeatability, error, number)
            if wait is None:
                raise
        told: JsonObject = {"attempt": number, "error_class": error.error_class.value, "retry_in_s": round(wait, 3)}
        call.note(steps.RETRYING, told)
        await pause(call, wait)
        number += 1


def _wait(call: Call, tool: Repeatability, error: ToolError, number: int) -> float | None:
    """Give the seconds before the next attempt; none if there will be none."""
    core = call.core
    left = call.cap_at - core.deadlines.now() if call.cap_at else call.timeout_s
    attempt = Attempt(number=number, effects_possible=True, seconds_left=left)
    found = next_attempt(completed(error), attempt, tool=tool, policy=core.retry, random=core.random)
    return None if isinstance(found, Refusal) or call.abort_reason is not None else found


def _heed(call: Call, tool: Tool, error: ToolError) -> None:
    """Let nothing through for as long as the source itself asked for."""
    if tool.buckets and error.error_class is ErrorClass.RATE_LIMITED and isinstance(error.retry_after, int | float):
        for bucket in tool.buckets:
            bucket.hold(call.core.deadlines.now(), error.retry_after)
