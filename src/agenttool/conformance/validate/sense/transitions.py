"""Are the steps of a call legal, in order, and do they lead to the status it claims."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from agenttool.conformance.validate.finding import Flaw
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.conformance.validate.sense.times import is_before
from agenttool.records import InvocationStatus, Json, may_follow
from agenttool.schema.explain import pointer_of

_NO_ENDS = frozenset(str(status) for status in InvocationStatus if not status.is_terminal)


def check_transitions(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask that states follow one another as they may, in time, and end where the record says it stands."""
    transitions = record.members.get("status_transitions")
    if not isinstance(transitions, list):
        return
    statuses = [_member(each, "status") for each in transitions]
    times = [_member(each, "at") for each in transitions]
    for index, (before, after) in enumerate(pairwise(statuses), start=1):
        if isinstance(before, str) and isinstance(after, str) and not _may_follow(before, after):
            yield _illegal(InvocationStatus(before), InvocationStatus(after), index)
        if is_before(times[index], times[index - 1]):
            yield _earlier(index)
    last, status = (statuses or [None])[-1], record.members.get("status")
    if isinstance(last, str) and isinstance(status, str) and last != status:
        yield Flaw(
            message="the last step is not the status of the record",
            expected="the status that the last step led to",
            advice="add the missing step, or correct the status",
            pointer="/status",
            requirement="AT-INV-13",
        )


@lru_cache(maxsize=4096)
def _may_follow(before: str, after: str) -> bool:
    return may_follow(InvocationStatus(before), InvocationStatus(after))


def check_end(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask that a call that has ended has a status that is an end (AT-INV-13)."""
    status = record.members.get("status")
    if isinstance(record.members.get("ended_at"), str) and isinstance(status, str) and status in _NO_ENDS:
        yield Flaw(
            message=f"the call has ended, but {status!r} is no end",
            expected="one of the eight last statuses",
            advice="write the status it ended with, or leave ended_at out while it goes on",
            pointer="/status",
            requirement="AT-INV-13",
        )


def _earlier(index: int) -> Flaw:
    return Flaw(
        message="the step is earlier than the one before it",
        expected="times in the order of the steps",
        advice="sort the steps by time, or take their times from one clock",
        pointer=pointer_of(("status_transitions", index)),
        requirement="AT-INV-09",
    )


def _illegal(before: InvocationStatus, after: InvocationStatus, index: int) -> Flaw:
    if before.is_terminal:
        message, expected = f"nothing follows {str(before)!r}, which is an end", "one end, and it last"
        advice, requirement = "leave out what came after the end", "AT-INV-13"
    else:
        message, expected = f"{str(after)!r} cannot follow {str(before)!r}", "the order of the pipeline"
        advice, requirement = "skip states that did not occur, but do not turn their order round", "AT-INV-08"
    pointer = pointer_of(("status_transitions", index))
    return Flaw(message=message, expected=expected, advice=advice, pointer=pointer, requirement=requirement)


def _member(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, dict) else None
