"""Statistics of recorded calls: how many, how long, how they ended, in equal spans of time."""

import sys
import threading
from array import array
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from typing import NamedTuple

from agenttool.codec import read_own, write_own
from agenttool.errors import RecordError
from agenttool.history.listed_call import ListedCall
from agenttool.history.reader import JournalReader
from agenttool.ports.deferred import RESULT_PREFIX
from agenttool.records import InvocationId, InvocationStatus
from agenttool.stores.sqlite.fact_rows import CallEnd
from agenttool.world import SystemClock

MAX_COUNTED = 50_000
"""So many calls are counted; of more, only the newest."""

SAVE_AFTER = 2_500
"""The counts are stored again after so many calls, so that a new process reads no more calls than these."""

DOCUMENT_KIND, DOCUMENT_KEY = "call_counts", "newest"
"""Where the counts are stored."""

MAX_FAILURES = 6
"""How many of the latest failures are listed."""

_NOT_STARTED = (InvocationStatus.PLANNED, InvocationStatus.QUEUED)
_DENIED_STATUSES = (InvocationStatus.DENIED, InvocationStatus.BLOCKED)
_SUCCEEDED, _DENIED, _FAILED = range(3)


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Counts of calls that ended in one span of time, and their durations, sorted; a denied call is not an error."""

    calls: int
    errors: int
    denied: int
    durations_ns: Sequence[int] = field(repr=False)

    def percentile_s(self, percent: int) -> float | None:
        """Return the duration within which so many percent of the calls ended; None without calls."""
        ordered = self.durations_ns
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] / 1e9 if ordered else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStatistics:
    """The calls of a window that ends now.

    Attributes:
        spans: the counts of each span, the oldest first.
        running: the open calls that wait for nothing.
        planned: the calls that wait for other calls, or for their turn.
        waiting: the calls that wait for an approval.
        deferred: the calls that wait for a result.
        failures: the latest calls that did not succeed, the newest first.
        is_cut: whether there were more calls than were counted.
    """

    spans: Sequence[CallCounts]
    total: CallCounts
    running: int
    planned: int
    waiting: int
    deferred: int
    failures: Sequence[ListedCall]
    is_cut: bool


class CallCounter:
    """Counts the ended calls of one journal, and reads each of them once. Safe from any thread.

    The calls are in the order of their ends. Older ones are read once a window needs them. The first count begins with
    the stored counts, if the journal has some.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._places = array("q")
        self._ends, self._durations, self._outcomes = array("q"), array("q"), array("b")
        self._failures: deque[ListedCall] = deque(maxlen=MAX_FAILURES)
        self._newest = 0
        self._is_complete = False
        """Whether there are no older calls to read."""
        self._unsaved = 0

    def count(self, reader: JournalReader, *, until_ns: int, span_ns: int, spans: int) -> CallStatistics:
        """Count the calls that ended within `spans` spans before a time."""
        since_ns = until_ns - span_ns * spans
        with self._lock:
            self._read_newer(reader, since_ns)
            self._read_older(reader, since_ns)
            edges = [bisect_left(self._ends, since_ns + span_ns * place) for place in range(spans + 1)]
            counted = [self._counts(*each) for each in pairwise(edges)]
            failures = [each for each in self._failures if since_ns <= each.at_ns < until_ns]
            is_cut = edges[0] == 0 and len(self._ends) >= MAX_COUNTED
        opened = Counter(_open_states(reader))
        return CallStatistics(
            spans=counted,
            total=CallCounts(
                sum(each.calls for each in counted),
                sum(each.errors for each in counted),
                sum(each.denied for each in counted),
                sorted(chain.from_iterable(each.durations_ns for each in counted)),
            ),
            running=opened["running"],
            planned=opened["planned"],
            waiting=opened["waiting"],
            deferred=opened["deferred"],
            failures=failures,
            is_cut=is_cut,
        )

    def _counts(self, start: int, end: int) -> CallCounts:
        outcomes = self._outcomes[start:end]
        return CallCounts(
            end - start, outcomes.count(_FAILED), outcomes.count(_DENIED), sorted(self._durations[start:end])
        )

    def unsaved(self) -> bytes | None:
        """Return the counts as a document for the store, if enough calls were read since it was last returned."""
        with self._lock:
            if self._unsaved < SAVE_AFTER:
                return None
            self._unsaved = 0
            failures = [each.facts[0][1].invocation_id or "" for each in self._failures]
            columns = [column.tobytes() for column in self._columns]
            return write_own(_SavedCounts(sys.byteorder, self._newest, self._is_complete, failures, columns))

    def _load(self, reader: JournalReader) -> None:
        """Begin with the stored counts; those of another kind of machine or of another version are ignored."""
        for _, body in reader.documents(DOCUMENT_KIND):
            with suppress(RecordError, ValueError):
                saved = read_own(body, _SavedCounts)
                columns = [column[:0] for column in self._columns]
                for column, values in zip(columns, saved.columns, strict=True):
                    column.frombytes(values)
                if saved.byteorder == sys.byteorder and len({*map(len, columns)}) == 1:
                    self._places, self._ends, self._durations, self._outcomes = columns
                    self._newest, self._is_complete = saved.newest, saved.is_complete
                    self._failures.extend(_listed(reader, saved.failures))

    def _read_newer(self, reader: JournalReader, since_ns: int) -> None:
        """Add the calls that ended since the last count, or within the window if this is the first."""
        last = reader.head().position
        if not self._newest:
            self._load(reader)
        if last < self._newest:  # the file was replaced by another journal
            self._forget()
        if last == self._newest:
            return
        found: list[CallEnd] = []
        is_first = not self._newest
        for end in reader.ends():
            if end.place <= self._newest or len(found) == MAX_COUNTED or (is_first and end.ended_ns < since_ns):
                break
            found.append(end)
        else:
            self._is_complete |= is_first
        self._newest = last
        failed = [*islice(_failures(found), MAX_FAILURES)]
        self._failures.extendleft(_listed(reader, reversed(failed)))
        self._insert(found[::-1], at_end=True)
        surplus = len(self._ends) - MAX_COUNTED
        if surplus > MAX_COUNTED // 10:
            for column in self._columns:
                del column[:surplus]
            self._is_complete = False

    def _read_older(self, reader: JournalReader, since_ns: int) -> None:
        """Add older calls, back to the start of the window."""
        left = MAX_COUNTED - len(self._ends)
        if self._is_complete or left <= 0 or (self._ends and self._ends[0] < since_ns):
            return
        found: list[CallEnd] = []
        for end in reader.ends(self._places[0] if self._places else self._newest + 1):
            found.append(end)  # also the first one before the window, so that it is not read again
            if end.ended_ns < since_ns or len(found) == left:
                break
        else:
            self._is_complete = True
        failed = islice(_failures(found), MAX_FAILURES - len(self._failures))
        self._failures.extend(_listed(reader, failed))
        self._insert(found[::-1], at_end=False)

    @property
    def _columns(self) -> tuple["array[int]", ...]:
        return self._places, self._ends, self._durations, self._outcomes

    def _insert(self, found: Sequence[CallEnd], *, at_end: bool) -> None:
        self._unsaved += len(found)
        columns = (
            (end.place for end in found),
            (end.ended_ns for end in found),
            (end.ended_ns - end.began_ns for end in found),
            (_outcome(end.status) for end in found),
        )
        for column, values in zip(self._columns, columns, strict=True):
            added = array(column.typecode, values)
            if at_end:
                column.extend(added)
            else:
                column[:0] = added


class _SavedCounts(NamedTuple):
    """The state of a counter in the store."""

    byteorder: str
    newest: int
    is_complete: bool
    failures: list[str]
    columns: list[bytes]


def _failures(ends: Iterable[CallEnd]) -> Iterator[str]:
    return (each.invocation_id for each in ends if each.status is not InvocationStatus.SUCCEEDED)


def _listed(reader: JournalReader, calls: Iterable[str]) -> Iterator[ListedCall]:
    for call in calls:
        if facts := [*reader.facts_of(InvocationId(call))]:  # retention may have deleted them
            yield ListedCall(facts)


def _outcome(status: InvocationStatus) -> int:
    if status in _DENIED_STATUSES:
        return _DENIED
    return _SUCCEEDED if status is InvocationStatus.SUCCEEDED else _FAILED


def _open_states(reader: JournalReader) -> Iterator[str]:
    """Yield the state in which each open call is counted: what it waits for, or else its status."""
    for invocation_id, owner in reader.open_owners(SystemClock().moment()):
        if owner.waits_for is not None:
            yield "deferred" if owner.waits_for.startswith(RESULT_PREFIX) else "waiting"
        elif facts := reader.facts_of(invocation_id):
            yield "planned" if ListedCall([*facts]).status in _NOT_STARTED else "running"
