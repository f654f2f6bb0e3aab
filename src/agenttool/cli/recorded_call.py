"""The state of one recorded call as text: which process runs it, and what it waits for."""

from agenttool.cli.format import utc
from agenttool.history.recorded_call import RecordedCall
from agenttool.ports.deferred import RESULT_PREFIX
from agenttool.ports.source import SourceStatus
from agenttool.world import SystemClock

_LATE_NS = 60_000_000_000
"""So long after the time of the next attempt, the process that would make it is gone."""


def open_call_state(call: RecordedCall, store_arguments: str) -> str:
    """Return which process runs a call that has not ended, and the command that continues it."""
    owner = call.owner
    recover = f"a process that has its tool recovers it, such as `agenttool approvals --from MODULE{store_arguments}`"
    if owner is None:
        return f"no process runs it: check the journal with `agenttool verify{store_arguments}`"
    if owner.is_answered:
        reads_it = f"its process ({owner.process}) is about to read it"
        return "its answer is recorded; " + (reads_it if owner.is_alive else recover)
    if owner.waits_for is not None and owner.waits_for.startswith(RESULT_PREFIX):
        return f"{server_state(call.server)}; `agenttool serve` receives the result"
    if owner.waits_for is not None:
        return f"it waits for an answer: agenttool approvals answer {owner.waits_for} allow{store_arguments}"
    return (
        f"the process {owner.process} runs it"
        if owner.is_alive
        else f"its process ({owner.process}) is gone; {recover}"
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
