"""The short way of a plain call: the first eight phases in one breath, because none of them has a question about it.

A tool is plain if it has no hooks, no checks of its own, no normal form, no sensitive fields, and facts that do not
depend on its input; all this is known when it is declared. A call to it is plain if its input fits, a standing rule
allows it, and nobody is in its way. Whatever is not plain leaves no trace here and goes through `run.attempt`, phase
by phase, which is what this file must never differ from: a test holds the two side by side.
"""

from agenttool.codec import SHALLOW, UNREADABLE, flat_values, is_too_deep, read_object
from agenttool.errors import StoreError
from agenttool.pipeline.away import hand_over
from agenttool.pipeline.call import Call
from agenttool.pipeline.held import unavailable
from agenttool.pipeline.outlast import outlast
from agenttool.pipeline.phases.execute import run
from agenttool.pipeline.started import ENDED_EARLY, Waiting, end_early
from agenttool.pipeline.stopping import refuse_if_stopped
from agenttool.pipeline.tool import Tool
from agenttool.records import Behavior, Live, Phase
from agenttool.scheduler.lines import Turn

NOT_PLAIN = object()
"""Nothing has happened: the call needs the long way."""


class ToBeKept(Live, eq=False, gc=False):
    """A call of which everything is ready, but nothing may run before it is on disk that it does."""

    tool: Tool
    turn: Turn
    values: tuple[object, ...] | None


_ALLOW = Behavior.ALLOW
_EXECUTE = Phase.EXECUTE


def express(call: Call) -> object:  # noqa: PLR0911 -- a question, a return: split, it would lose what it is for
    """Start a plain call; give its output, what it waits for, or `NOT_PLAIN`.

    Raises:
        ToolFailure: canceled; and whatever the tool raises.
    """
    core, surface, request = call.core, call.surface, call.request
    entry = None if surface is None else surface.entries[request.name]
    if entry is None or call.is_special or core.advisers:
        return NOT_PLAIN
    tool = core.tools[entry]
    facts = tool.plain_facts
    if facts is None:
        return NOT_PLAIN
    values = None
    try:
        if tool.read_flat is not None:
            values = flat_values(tool.read_flat(request.model_input))
        elif not _fits(call, tool, request.model_input):
            return NOT_PLAIN
    except UNREADABLE:
        return NOT_PLAIN
    standing = core.policy.standing(tool.subject)
    if standing is None or standing.behavior is not _ALLOW:
        return NOT_PLAIN
    turn = core.gate.try_enter(facts)
    if turn is None:
        return NOT_PLAIN
    call.tool = tool
    call.tool_id = tool.tool_id
    call.turn = turn
    call.phase = _EXECUTE
    call.standing = standing
    call.started_ns = core.now_ns()
    if tool.later is not None or (core.durable and tool.has_effects):
        call.tell_launch()
        return ToBeKept(tool, turn, values)
    if not tool.is_silent:
        call.tell_launch()
    return _begin(call, tool, turn, values)


def _begin(call: Call, tool: Tool, turn: Turn, values: tuple[object, ...] | None) -> object:
    """Let the tool of a plain call begin; give its output, or what it waits for.

    Raises:
        ToolFailure: canceled; and whatever the tool raises.
    """
    core = call.core
    try:
        work = tool.start(call) if values is None or tool.direct is None else tool.direct(*values)
        run = Waiting(work, work.send(None))
    except StopIteration as end:
        core.gate.leave(turn)
        return end.value  # the start of a silent tool is told together with its end
    except BaseException as error:
        core.gate.leave(turn)
        call.tell_launch()
        if isinstance(error, ENDED_EARLY):
            return end_early(call, error)
        raise
    call.tell_launch()
    return run


async def begin_kept(call: Call, ready: ToBeKept) -> object:
    """Let the tool of a plain call begin once it is on disk that it does; give its output, or what it waits for.

    Raises:
        ToolFailure: dependency_unavailable, canceled; and whatever the tool raises.
    """
    core, later = call.core, ready.tool.later
    core.calls[call.invocation_id] = call
    if later is not None:
        call.decisions = 1  # the one that stands
        try:
            return await hand_over(call, later, lambda: run(call, ready.tool))
        finally:
            give_back(call)
    try:
        await core.settle()
        refuse_if_stopped(call)
    except StoreError as error:
        core.gate.leave(ready.turn)
        raise unavailable(call, error) from error
    except BaseException:
        core.gate.leave(ready.turn)
        raise
    return _begin(call, ready.tool, ready.turn, ready.values)


def _fits(call: Call, tool: Tool, written: bytes) -> bool:
    """Read an input, and tell whether its tool takes it.

    Raises one of `UNREADABLE`.
    """
    call.call_input = read_object(written)
    if len(written) > SHALLOW and is_too_deep(call.call_input):
        return False
    return tool.check_model.accepts_parsed(call.call_input)


def give_back(call: Call) -> None:
    """Give the turn of a plain call back, once nothing of it runs any more."""
    turn = call.turn
    if turn is None:
        return
    if call.goes_on_until is None:
        call.core.gate.leave(turn)
    else:
        outlast(call, lambda: call.core.gate.leave(turn))
