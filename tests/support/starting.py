"""Start a call, and return its invocation once it has ended or waits."""

from agenttool import ToolCall
from agenttool.journal.projection import invocation_of


async def begin(rt, name, arguments, *, native_call_id=None, invocation_id=None, **options):
    """Start a call; return its recorded invocation once it has ended, or it or a nested call of it waits."""
    call = ToolCall(name, arguments, native_call_id=native_call_id, invocation_id=invocation_id)
    started = await (await rt.calls.start(call, **options)).idle()
    return invocation_of(rt.inspection.log.facts_of(started.id))
