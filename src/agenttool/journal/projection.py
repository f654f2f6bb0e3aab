"""Projection of facts into records: the current invocation, its events, and its other records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from agenttool.codec import json_bytes, parse_object, read, write
from agenttool.codec.moments import timestamp
from agenttool.ports.facts import Fact
from agenttool.records import (
    EVENT,
    UNSET,
    EventType,
    InvocationStatus,
    JsonObject,
    Record,
    SchedulerState,
    SchedulingFacts,
    StatusTransition,
    Timestamp,
    ToolEvent,
    ToolInvocation,
    ToolResult,
    replace,
)

SOURCE = "agenttool"


def invocation_of(facts: Sequence[Fact]) -> ToolInvocation | None:
    """Return the invocation that the facts of one call project to; none without facts."""
    if not facts:
        return None
    fields: dict[str, object] = {"invocation_id": facts[0].invocation_id, "tool_id": facts[-1].tool_id}
    for fact in facts:
        if fact.data is not None and not isinstance(fact.data, dict):
            _merge(fields, fact.data.contributes())
    moves = tuple(
        [
            StatusTransition(status=status, at=at)
            for fact in facts
            for at in (timestamp(fact.at_ns),)
            for status in fact.step.statuses
        ]
    )
    status = moves[-1].status if moves else InvocationStatus.PLANNED
    started_at = cast("Timestamp | None", fields.pop("started_at", None)) or _moment_of(EventType.STARTED, facts)
    first_at = timestamp(facts[0].at_ns)
    _fill_inputs(fields, has_started=started_at is not None)
    if isinstance(scheduler := fields.get("scheduler"), SchedulingFacts):
        fields["scheduler"] = replace(scheduler, state=_STATES.get(status, SchedulerState.YIELDED))
    return ToolInvocation(
        **fields,  # pyright: ignore[reportArgumentType] -- each evidence fills fields of the record
        status=status,
        status_transitions=moves,
        created_at=min(first_at, started_at or first_at),  # a plain call is written when it has ended
        started_at=started_at,
        ended_at=moves[-1].at if status.is_terminal else None,
    )


_STATES = {
    InvocationStatus.QUEUED: SchedulerState.QUEUED,
    InvocationStatus.RUNNING: SchedulerState.EXECUTING,
    InvocationStatus.NEEDS_INPUT: SchedulerState.EXECUTING,
    InvocationStatus.PARTIAL_RESULT: SchedulerState.EXECUTING,
    InvocationStatus.POST_HOOKS_RUNNING: SchedulerState.COMPLETED,
    InvocationStatus.CANCELED: SchedulerState.DISCARDED,
}
"""The scheduler state of a call by its status; with any other status it has left the queue with a result."""


def _fill_inputs(fields: dict[str, object], *, has_started: bool) -> None:
    """Set an unchanged input to a copy of the one before it (AT-INV-03)."""
    if "permission_input" in fields or "hook_refs" in fields:
        fields.setdefault("observable_input", _own(fields.get("model_input", UNSET)))
    if has_started:
        fields.setdefault("call_input", _own(fields.get("permission_input", UNSET)))


def _own(value: object) -> object:
    return parse_object(json_bytes(cast("JsonObject", value))) if isinstance(value, dict) else value


def records_of(facts: Iterable[Fact]) -> Iterator[Record]:
    """Yield the records of facts, in order, without events and the invocation itself."""
    for fact in facts:
        if fact.data is not None and not isinstance(fact.data, dict):
            yield from fact.data.records(fact)


def result_in(facts: Sequence[Fact]) -> ToolResult | None:
    """Return a copy of the result among the facts of one call; none if there is none."""
    found = next((record for record in records_of(facts) if isinstance(record, ToolResult)), None)
    return None if found is None else read(write(found), ToolResult)


def may_have_acted(invocation: ToolInvocation | None) -> bool:
    """Return whether the tool of a recorded call was started, and does more than read."""
    if invocation is None or invocation.started_at is None:
        return False
    return invocation.scheduler is None or invocation.scheduler.is_read_only is not True


def events_of(fact: Fact, *, position: int) -> Iterator[ToolEvent]:
    """Yield the events of a fact at its position in the log, with the same ids every time."""
    sequence = fact.sequence
    for event, status in fact.step.transitions:
        if event is None:
            continue
        sequence += 1
        about: JsonObject = {"sequence": sequence} if fact.invocation_id else {}
        if status is not None:
            about["status"] = status.value
        yield ToolEvent(
            event_id=EVENT.compose(_unique(fact, sequence, position)),
            event_type=event,
            source=SOURCE,
            time=timestamp(fact.at_ns),
            invocation_id=fact.invocation_id,
            tool_id=fact.tool_id,
            data={**about, **members_of(fact, event)},
        )


def members_of(fact: Fact, event: EventType) -> JsonObject:
    """Return the data of a fact for one of its events."""
    if fact.data is None:
        return {}
    return fact.data if isinstance(fact.data, dict) else fact.data.members(event)


def _unique(fact: Fact, sequence: int, position: int) -> str:
    """Return the unique part of an event id: its call and its place there."""
    if fact.invocation_id is None:
        return f"{fact.at_ns:020d}-{position}"
    return f"{fact.invocation_id.partition('_')[2]}-{sequence:04d}"


def _moment_of(event: EventType, facts: Sequence[Fact]) -> Timestamp | None:
    return next(
        (timestamp(fact.at_ns) for fact in facts if any(each == event for each, _ in fact.step.transitions)), None
    )


def _merge(fields: dict[str, object], added: Mapping[str, object]) -> None:
    """Set fields; a tuple is extended by what it does not have yet."""
    for name, value in added.items():
        known = fields.get(name)
        if isinstance(known, tuple) and isinstance(value, tuple):
            before, more = cast("tuple[object, ...]", known), cast("tuple[object, ...]", value)
            fields[name] = (*before, *(each for each in more if each not in before))
        else:
            fields[name] = value
