"""The state of one recorded call as text: which process runs it, and what it waits for."""

from collections.abc import Iterable

from agenttool.cli.format import utc
from agenttool.config.program import program_name
from agenttool.history.listed_call import tool_name
from agenttool.history.recorded_call import RecordedCall
from agenttool.ports.deferred import RESULT_PREFIX
from agenttool.ports.source import SourceStatus
from agenttool.stores.sqlite.leases import Ownership
from agenttool.world import SystemClock

_LATE_NS = 60_000_000_000
"""So long after the time of the next attempt, the process that would make it is gone."""


def open_call_state(call: RecordedCall, store_arguments: str) -> str:
    """Return which process runs a call that has not ended, and the command that continues it."""
    owner = call.owner
    if owner is None:
        return f"no process runs it: check the journal with `{program_name()} verify{store_arguments}`"
    if owner.waits_for_tool or owner.is_answered:
        return _continuation(call, owner, store_arguments)
    if owner.waits_for is not None and owner.waits_for.startswith(RESULT_PREFIX):
        return f"{server_state(call.server)}; `{program_name()} serve` receives the result"
    if owner.waits_for is not None:
        return f"it waits for an answer: {program_name()} approvals answer {owner.waits_for} allow{store_arguments}"
    return f"the process {owner.process} runs it"


def _continuation(call: RecordedCall, owner: Ownership, store_arguments: str) -> str:
    done = "its answer is recorded; " if owner.is_answered else ""
    if not owner.waits_for_tool:
        return f"{done}its process ({owner.process}) is about to read it"
    gone = "no process runs it" if owner.process is None else f"its process ({owner.process}) is gone"
    return f"{done}{gone}, so it {waiting_for_tools([tool_name(call.invocation.tool_id)], store_arguments)}"


def waiting_for_tools(tools: Iterable[str], store_arguments: str) -> str:
    """Return what calls wait for whose process is gone, and the commands that continue them."""
    names = ", ".join(dict.fromkeys(tools))
    recover = f"`{program_name()} approvals --from MODULE{store_arguments}`"
    return (
        f"waits for a process that has the tool {names}, such as {recover}, or `{program_name()} serve` with its source"
    )


def server_state(server: SourceStatus | None) -> str:
    """Return what the server of a waiting call does; if it does not answer, since when, why, and the next attempt."""
    if server is None or server.is_ready:
        return "its server works on it"
    return f"its server {server.source!r} {fault_state(server)}"


def fault_state(server: SourceStatus) -> str:
    """Return since when a server has not answered, why, and when it is tried again."""
    state = f"has not answered since {utc(server.since_ns)} ({server.fault})"
    if server.next_try_at_ns is None:
        return state
    is_past = server.next_try_at_ns < SystemClock().now_ns() - _LATE_NS
    next_try = "no process has tried it since" if is_past else "the next attempt is at"
    return f"{state}; {next_try} {utc(server.next_try_at_ns)}"
