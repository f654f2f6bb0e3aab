"""What the journal is made of: facts, cheap to note on the path of a call and rich to read afterwards.

A fact says that a call took a step. A step that never takes time of its own is noted together with the ones before it:
a plain call is launched and ended, two facts that are told as ten events. Nothing is turned into the standard's records
until somebody reads it, so `data` is whatever the path had at hand: nothing, plain members, or an `Evidence` that knows
how to become records.
"""

from collections.abc import Mapping
from typing import Protocol, TypeAlias

from agenttool.records import EventType, InvocationId, InvocationStatus, JsonObject, Part, Record, ToolId, may_follow

Told: TypeAlias = tuple[EventType | None, InvocationStatus | None]
"""One thing a step tells: an event, a status, or both."""


class Step:
    """What may happen to a call, and everything that is told of it, in order. A handful of constants, made once.

    Attributes:
        after: the statuses that it may follow, `None` standing for a call of which nothing was told yet; a step that
            tells no status may follow any.
        last: the status in which it leaves the call; none if it changes nothing.
        ends: whether nothing can follow it.
        events: how many events it tells.
    """

    __slots__ = ("after", "ends", "events", "last", "name", "told")

    def __init__(self, name: str, *told: Told) -> None:
        """Take the name under which a store keeps it, and what it tells."""
        statuses = [status for _, status in told if status is not None]
        self.name = name
        self.told = told
        self.events = sum(event is not None for event, _ in told)
        self.last = statuses[-1] if statuses else None
        self.ends = self.last is not None and self.last.is_terminal
        self.after = frozenset(
            before
            for before in (None, *InvocationStatus)
            if before is None or not statuses or may_follow(before, statuses[0])
        )

    def __repr__(self) -> str:
        """Show the name."""
        return f"Step({self.name})"


class Evidence(Protocol):
    """What a fact rests on, able to tell itself."""

    def members(self, event: EventType) -> JsonObject:
        """Give what an event of this fact says in its `data`; never an argument or an output in the clear."""
        ...

    def contributes(self) -> Mapping[str, object]:
        """Give the fields of the `tool_invocation` that this fact fills; a tuple adds to what is there."""
        ...

    def records(self, fact: "Fact") -> tuple[Record, ...]:
        """Give the records that this fact stands for."""
        ...

    def tell(self, fact: "Fact") -> "Telling | Brief":
        """Give all of the above at once, for a log that writes it down while the call waits."""
        ...


class Brief(Part, frozen=True):
    """Evidence in few words, of a kind that a log knows to read back; they are records and plain values.

    Attributes:
        standing: what is the same object for many calls, so that a log may write it once for all of them.
    """

    kind: str
    words: tuple[object, ...]
    standing: Part | None = None


Telling: TypeAlias = tuple[Mapping[str, JsonObject], Mapping[str, object], tuple[Record, ...]]
"""All that evidence tells: its members by event, where there are any, the fields that it fills, and its records."""


def tell_in_parts(evidence: Evidence, fact: "Fact") -> Telling:
    """Gather what evidence tells of a fact."""
    events = [event for event, _ in fact.step.told if event is not None]
    told = {event.value: members for event in events if (members := evidence.members(event))}
    return told, evidence.contributes(), evidence.records(fact)


FactData: TypeAlias = Evidence | JsonObject | None


class Fact(Part, frozen=True):
    """A step that a call took, and when; `sequence` counts the events of its call before this fact.

    A fact about no call has no `invocation_id`.
    """

    step: Step
    at_ns: int
    sequence: int
    invocation_id: InvocationId | None
    tool_id: ToolId | None
    data: FactData
