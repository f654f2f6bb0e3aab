"""The entries of the journal: facts, which are cheap to append and become the standard's records on read.

A fact records that a call took a step. Steps that take no time of their own are appended together: a plain call is two
facts, launched and ended, which replay as ten events. The path of a call appends what it has at hand: nothing, plain
members, or an `Evidence` that becomes records when the journal is read.
"""

from collections.abc import Mapping
from typing import TypeAlias

from agenttool.records import EventType, InvocationId, InvocationStatus, JsonObject, Part, Record, ToolId, may_follow

Transition: TypeAlias = tuple[EventType | None, InvocationStatus | None]
"""One effect of a step: an event, a status, or both."""


class Step:
    """What may happen to a call, with its events and statuses in order. A fixed set of constants.

    Attributes:
        after: the statuses that it may follow; `None` stands for a call without facts. A step without a status may
            follow any.
        last: the status in which it leaves the call; none if it changes nothing.
        ends: whether nothing can follow it.
        events: how many events it has.
        statuses: those that the call takes, in order.
    """

    __slots__ = ("after", "ends", "events", "last", "name", "statuses", "transitions")

    def __init__(self, name: str, *transitions: Transition) -> None:
        """Take the name under which a store writes it, and its events and statuses."""
        statuses = self.statuses = tuple(status for _, status in transitions if status is not None)
        self.name = name
        self.transitions = transitions
        self.events = sum(event is not None for event, _ in transitions)
        self.last = statuses[-1] if statuses else None
        self.ends = self.last is not None and self.last.is_terminal
        self.after = frozenset(
            before
            for before in (None, *InvocationStatus)
            if before is None or not statuses or may_follow(before, statuses[0])
        )

    def __repr__(self) -> str:
        return f"Step({self.name})"


_NO_FIELDS: Mapping[str, object] = {}


class Evidence(Part, frozen=True):
    """The content of a fact; by default it adds nothing to the events of its step."""

    def members(self, event: EventType) -> JsonObject:
        """Return the `data` members of one event of this fact; never an argument or an output in the clear."""
        return {}

    def contributes(self) -> Mapping[str, object]:
        """Return the fields of the `tool_invocation` that this fact sets; a tuple is appended to the present one."""
        return _NO_FIELDS

    def records(self, fact: "Fact") -> tuple[Record, ...]:
        """Return the records that this fact stands for."""
        return ()

    def compact(self, fact: "Fact") -> "CompactFact | ProjectedFact":
        """Return what a log writes for this fact: its compact form if it has one, else its projection."""
        events = [event for event, _ in fact.step.transitions if event is not None]
        members = {event.value: found for event in events if (found := self.members(event))}
        return members, self.contributes(), self.records(fact)


class CompactFact(Part, frozen=True):
    """The short form of an evidence class that the log can decode; its words are records and plain values.

    Attributes:
        shared: an object that many facts have in common, so that a log can write it once for all of them.
    """

    kind: str
    words: tuple[object, ...]
    shared: Part | None = None


ProjectedFact: TypeAlias = tuple[Mapping[str, JsonObject], Mapping[str, object], tuple[Record, ...]]
"""The projection of an evidence: its members by event, the fields that it sets, and its records."""

FactData: TypeAlias = Evidence | JsonObject | None


class Fact(Part, frozen=True):
    """A step that a call took, and when; `sequence` counts the events of its call before this fact.

    A fact that belongs to no call has no `invocation_id`.
    """

    step: Step
    at_ns: int
    sequence: int
    invocation_id: InvocationId | None
    tool_id: ToolId | None
    data: FactData
