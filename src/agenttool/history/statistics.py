"""Statistics of recorded calls: how many, how long, how they ended, in equal spans of time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from agenttool.history.listed_call import CallFilter, ListedCall, open_calls
from agenttool.history.reader import JournalReader
from agenttool.ports.deferred import RESULT_PREFIX
from agenttool.records import InvocationStatus

MAX_COUNTED = 50_000
"""So many calls are counted; of more, only the newest."""

_NOT_STARTED = (InvocationStatus.PLANNED, InvocationStatus.QUEUED)
_DENIED = (InvocationStatus.DENIED, InvocationStatus.BLOCKED)


@dataclass(slots=True)
class CallCounts:
    """Counts of calls that ended in one span of time, and how long they took."""

    calls: int = 0
    errors: int = 0
    denied: int = 0
    durations_ns: list[int] = field(default_factory=list[int])

    def add(self, call: ListedCall) -> None:
        """Count one call; one that was denied is no error."""
        self.calls += 1
        if call.status in _DENIED:
            self.denied += 1
        elif call.status is not InvocationStatus.SUCCEEDED:
            self.errors += 1
        self.durations_ns.append(call.taken_ns)

    def percentile_s(self, percent: int) -> float | None:
        """Return the duration within which so many percent of the calls ended; None without calls."""
        if not self.durations_ns:
            return None
        ordered = sorted(self.durations_ns)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStatistics:
    """The calls of a window that ends now.

    Attributes:
        spans: the counts of each span, the oldest first.
        running: the open calls that wait for nothing.
        planned: the calls that wait for other calls, or for their turn.
        waiting: the calls that wait for an approval.
        deferred: the calls that wait for a result.
        is_cut: whether there were more calls than were counted.
    """

    spans: Sequence[CallCounts]
    total: CallCounts
    running: int
    planned: int
    waiting: int
    deferred: int
    is_cut: bool


def count_calls(reader: JournalReader, *, until_ns: int, span_ns: int, spans: int) -> CallStatistics:
    """Count the calls that ended within `spans` spans before a time."""
    since_ns = until_ns - span_ns * spans
    counted, total, seen = [CallCounts() for _ in range(spans)], CallCounts(), 0
    for _, facts in reader.calls(CallFilter().facts, newest_first=True):
        call = ListedCall(facts)
        if not call.status.is_terminal or call.at_ns >= until_ns:
            continue
        if call.at_ns < since_ns or seen == MAX_COUNTED:
            break
        seen += 1
        total.add(call)
        counted[(call.at_ns - since_ns) // span_ns].add(call)
    opened = Counter(_state(call) for call in open_calls(reader))
    return CallStatistics(
        spans=counted,
        total=total,
        running=opened["running"],
        planned=opened["planned"],
        waiting=opened["waiting"],
        deferred=opened["deferred"],
        is_cut=seen == MAX_COUNTED,
    )


def _state(call: ListedCall) -> str:
    """Return how an open call is counted: by what it waits for, or else by its status."""
    awaited = None if call.owner is None else call.owner.waits_for
    if awaited is not None:
        return "deferred" if awaited.startswith(RESULT_PREFIX) else "waiting"
    return "planned" if call.status in _NOT_STARTED else "running"
